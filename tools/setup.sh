#!/usr/bin/env bash
# Installs what Lily's build and demo need and this machine lacks, with --tests what the tests and checks need too,
# and with --long-tests also the large peers of the long tests; does nothing, quickly, when all of it is there.
# The compiler for NVIDIA GPUs (290 MB) counts as needed by the tests and goes into build/cuda.
# Debian and its relatives: packages by apt-get. macOS: names the Homebrew packages. Peers of the tests (Python
# packages, Node clients) go into build/, never into the system.
set -euo pipefail
cd "$(dirname "$0")/.."

with_tests=false
with_long_tests=false
case "${1:-}" in
  "") ;;
  --tests) with_tests=true ;;
  --long-tests) with_tests=true; with_long_tests=true ;;
  *) echo "usage: tools/setup.sh [--tests | --long-tests]" >&2; exit 2 ;;
esac

# Compiler, build tools and libraries; jq and curl for the demo.
packages=(g++ cmake ninja-build ccache pkg-config make git python3 jq curl
          libfmt-dev libspdlog-dev libcli11-dev nlohmann-json3-dev libcpp-httplib-dev libpcre2-dev
          libutf8proc-dev libedit-dev libgtest-dev libgmock-dev)
$with_tests && packages+=(clang-format clang-tidy python3-venv python3-jinja2
                          libbenchmark-dev googletest g++-aarch64-linux-gnu qemu-user)

install_debian_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    dpkg-query --show --showformat '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' ||
      missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  apt_install "${missing[@]}"
}

apt_install() {
  echo "setup: installing $*"
  local root=()
  ((EUID == 0)) || root=(sudo)
  "${root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install -y -qq --no-install-recommends "$@" \
    > /dev/null
}

# A clang that reads the GPU kernels as Metal Shading Language: 16 or newer, of which Debian has one or another.
install_msl_checkers() {
  local version
  for version in 16 17 18 19 20 21; do
    { command -v "clang++-$version" && command -v "clang-query-$version" && command -v "clang-tidy-$version"; } \
      > /dev/null && return 0
  done
  for version in 16 19 17 18 20 21; do
    apt-cache show "clang-tools-$version" > /dev/null 2>&1 || continue
    apt_install "clang-$version" "clang-tools-$version" "clang-tidy-$version"
    return 0
  done
  echo "setup: notice: no clang of version 16 or newer; the check of the kernels for Metal will be skipped" >&2
}

# Python packages at fixed versions in a virtual environment of the build folder; what is missing without them.
install_python_packages() {
  local wanted=$1 environment=$2 otherwise=$3
  cmp -s "$wanted" "$environment/installed.txt" && return 0
  echo "setup: $wanted into $environment"
  python3 -m venv "$environment" &&
    "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted" &&
    cp "$wanted" "$environment/installed.txt" ||
    echo "setup: notice: $wanted could not be installed; $otherwise" >&2
}
install_python_peers() {
  install_python_packages "$1" "$2" "the tests that compare with these packages will be skipped"
}

# nvcc, where none is installed. CMake looks for its libraries in lib64.
install_cuda_compiler() {
  { [[ "$(uname)" == Linux ]] && ! command -v nvcc && [[ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]]; } \
    > /dev/null || return 0
  install_python_packages tools/requirements-cuda.txt build/cuda "there will be no CUDA backend"
  local toolkit
  for toolkit in build/cuda/lib/python3*/site-packages/nvidia/cu13; do
    [[ ! -d "$toolkit/lib" ]] || ln -sfn lib "$toolkit/lib64"
  done
}

# Node clients of the server's tests.
install_node_peers() {
  local source=tests/serve/openai-client target=build/openai-client
  [[ -f "$source/package-lock.json" ]] || return 0
  cmp -s "$source/package-lock.json" "$target/installed.json" && return 0
  # Node may come from elsewhere than Debian; without it nothing else is held up.
  if ! { command -v node && command -v npm; } > /dev/null; then
    { command -v dpkg-query > /dev/null && apt_install nodejs npm; } || {
      echo "setup: notice: no Node; the tests with the OpenAI client will be skipped" >&2
      return 0
    }
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
  if $with_tests; then install_msl_checkers; fi
elif [[ "$(uname)" == Darwin ]]; then
  command -v cmake > /dev/null && command -v ninja > /dev/null || {
    echo "setup: install with Homebrew: brew install cmake ninja ccache pkg-config fmt spdlog cli11" \
         "nlohmann-json cpp-httplib pcre2 utf8proc libedit googletest jq node" >&2
    exit 1
  }
else
  echo "setup: notice: neither Debian nor macOS; install by hand what README.md lists" >&2
fi
if $with_tests; then
  install_python_peers tools/requirements.txt build/python
  install_cuda_compiler
  install_node_peers
fi
if $with_long_tests; then install_python_peers tools/requirements-long.txt build/python-long; fi
