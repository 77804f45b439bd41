#!/usr/bin/env bash
# Runs clang-tidy with warnings as errors on every source of the build, the latest changed first. Needs
# build/compile_commands.json. With --seconds N it stops starting new files after N seconds and names those
# left unchecked, so that a slow machine still checks what is new.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=3600
case "${1:-}" in
  "") ;;
  --seconds) seconds="${2:?}" ;;
  *) echo "usage: tools/lint.sh [--seconds N]" >&2; exit 2 ;;
esac

# Only what the build compiles can be checked: sources for other processors are left to the cross build.
declare -A compiled=()
while read -r file; do compiled[$file]=1; done \
  < <(jq -r '.[].file' build/compile_commands.json | sed "s|^$PWD/||" | grep '^\(src\|tests\|benchmarks\)/.*\.cpp$')

files=()
add() { if [[ -n "${compiled[$1]:-}" ]]; then files+=("$1"); unset "compiled[$1]"; fi; }
while read -r file; do add "$file"; done < <(git status --porcelain -- src tests benchmarks | cut -c4-)
while read -r file; do add "$file"; done < <(git log --format= --name-only -- src tests benchmarks | grep '\.cpp$')
for file in "${!compiled[@]}"; do add "$file"; done

# Without precompiled headers: clang cannot read GCC's, and a source must include what it uses.
mkdir -p build/lint
jq '[.[] | .command |= gsub(" -Winvalid-pch| -include [^ ]*/cmake_pch.hxx"; "")]' \
  build/compile_commands.json > build/lint/compile_commands.json

export deadline=$(($(date +%s) + seconds))
check() {
  if (($(date +%s) >= deadline)); then echo "lint: not checked, time is up: $1"; return; fi
  clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error "$1" 2> >(grep -v 'warnings\? generated\|^Suppressed\|^Use -header-filter' >&2)
}
export -f check
printf '%s\0' "${files[@]}" | xargs -0 -P "$(getconf _NPROCESSORS_ONLN)" -n 1 bash -c 'check "$0"'
echo "lint: ${#files[@]} files, warnings are errors"
