#!/usr/bin/env bash
# Installs what Lily's build, tests and demo need and this machine lacks; does nothing, quickly, when all of it
# is there. Debian and Ubuntu: packages by apt-get. macOS: prints the Homebrew line. Peers of the tests (Python
# and Node clients) go into build/ and never into the system.
set -euo pipefail
cd "$(dirname "$0")/.."

# Product: compiler, build tools, libraries.
packages=(g++ cmake ninja-build ccache pkg-config make git
          libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libcpp-httplib-dev libpcre2-dev
          libutf8proc-dev libedit-dev)
# Tests, demo, checks.
packages+=(libgtest-dev libgmock-dev googletest clang-format clang-tidy jq curl xz-utils
           python3 python3-venv python3-jinja2 g++-aarch64-linux-gnu qemu-user)

install_debian_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query --show --showformat '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  # Node may also come from elsewhere than Debian.
  command -v node > /dev/null || missing+=(nodejs)
  command -v npm > /dev/null || missing+=(npm)
  ((${#missing[@]})) || return 0
  echo "setup: installing ${missing[*]}"
  local root=()
  ((EUID == 0)) || root=(sudo)
  "${root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    > /dev/null
}

# Python packages of the tests, at fixed versions, in a virtual environment of the build folder.
install_python_peers() {
  local wanted=tools/requirements.txt environment=build/python
  cmp -s "$wanted" "$environment/installed.txt" && return 0
  echo "setup: Python peers of the tests into $environment"
  python3 -m venv "$environment" &&
    "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" &&
    cp "$wanted" "$environment/installed.txt" ||
    echo "setup: notice: Python peers are not there; the tests that compare with them will be skipped" >&2
}

# Node clients of the server's tests.
install_node_peers() {
  local source=tests/serve/openai-client target=build/openai-client
  [[ -f "$source/package-lock.json" ]] || return 0
  cmp -s "$source/package-lock.json" "$target/installed.json" && return 0
  if ! command -v npm > /dev/null; then
    echo "setup: notice: no npm; the tests with the OpenAI client will be skipped" >&2
    return 0
  fi
  echo "setup: Node clients of the tests into $target"
  mkdir -p "$target"
  cp "$source/package.json" "$source/package-lock.json" "$target/"
  (cd "$target" && npm ci --silent --no-audit --no-fund) &&
    cp "$source/package-lock.json" "$target/installed.json" ||
    echo "setup: notice: npm ci failed; the tests with the OpenAI client will be skipped" >&2
}

if command -v dpkg-query > /dev/null; then
  install_debian_packages
elif [[ "$(uname)" == Darwin ]]; then
  command -v cmake > /dev/null && command -v ninja > /dev/null || {
    echo "setup: install with Homebrew: brew install cmake ninja ccache pkg-config fmt spdlog cli11" \
         "nlohmann-json cpp-httplib pcre2 utf8proc libedit googletest jq node" >&2
    exit 1
  }
else
  echo "setup: notice: neither Debian nor macOS; install by hand what README.md lists" >&2
fi
install_python_peers
install_node_peers
