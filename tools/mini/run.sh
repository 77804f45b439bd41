#!/usr/bin/env bash
# One run of the training, or the next one.  usage: tools/mini/run.sh WALL_SECONDS PROGRESS OUT [main.py's options]
# State and compiled kernels stay in build/mini between runs; the export, the log and the evaluation go to OUT.
set -euo pipefail

wall="${1:?usage: tools/mini/run.sh WALL_SECONDS PROGRESS OUT [options]}"
progress="${2:?the progress of the schedule at the end of this run, 0 to 1}"
out="${3:?the folder for what this run makes}"
shift 3
folder="$(cd "$(dirname "$0")" && pwd)"
build="$(cd "$folder/../.." && pwd)/build/mini"

mkdir -p "$build" "$out"
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
export PYTHONPATH="$build/fla" TRITON_CACHE_DIR="$build/triton" TORCHINDUCTOR_CACHE_DIR="$build/inductor"
python3 "$folder/main.py" --wall "$wall" --to "$progress" --state "$build/state.pt" --out "$out" "$@" 2>&1 |
  tee "$out/output.txt"
