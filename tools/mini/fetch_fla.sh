#!/usr/bin/env bash
# Gets fla-core 0.6.0 (MIT, pure Python and Triton), the delta rule's kernels, into an ignored folder of the build.
set -euo pipefail

version="0.6.0"
folder="$(cd "$(dirname "$0")/../.." && pwd)/build/mini/fla"
wheels="$(mktemp -d)"
trap 'rm -rf "$wheels"' EXIT

python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$wheels" "fla-core==$version"
rm -rf "$folder"
mkdir -p "$folder"
python3 -m zipfile -e "$wheels"/*.whl "$folder"
test -f "$folder/fla/ops/gated_delta_rule/chunk.py"
echo "fla-core $version is in $folder"
