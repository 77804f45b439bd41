#!/usr/bin/env bash
# Checks (--check) or applies (--fix) clang-format on every C++ file that git tracks or would track.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t files < <(git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp' '*.h' '*.cu' '*.cuh' |
                     while read -r file; do [[ -e "$file" ]] && echo "$file"; done)
case "${1:-}" in
  --check) clang-format --dry-run --Werror "${files[@]}" && echo "format: ${#files[@]} files checked" ;;
  --fix) clang-format -i "${files[@]}" ;;
  *) echo "usage: tools/format.sh --check | --fix" >&2; exit 2 ;;
esac
