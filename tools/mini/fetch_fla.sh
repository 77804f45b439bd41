#!/usr/bin/env bash
# Gets fla-core (MIT, Python and Triton: the delta rule's kernels) and einops, which it imports, into an ignored folder.
set -euo pipefail

packages=("fla-core==0.6.0" "einops==0.8.1")
folder="$(cd "$(dirname "$0")/../.." && pwd)/build/mini/fla"
wheels="$(mktemp -d)"
trap 'rm -rf "$wheels"' EXIT

python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$wheels" "${packages[@]}"
rm -rf "$folder"
mkdir -p "$folder"
for wheel in "$wheels"/*.whl; do
  python3 -m zipfile -e "$wheel" "$folder"
done
test -f "$folder/fla/ops/gated_delta_rule/chunk.py" && test -f "$folder/einops/__init__.py"
echo "${packages[*]} in $folder"
