#!/usr/bin/env bash
# One run of the training, or the next one.  usage: tools/mini/run.sh WALL_SECONDS PROGRESS OUT [main.py's options]
# The export, the log, the evaluation, the state that the next run goes on from and compiled kernels: all in OUT.
set -euo pipefail

wall="${1:?usage: tools/mini/run.sh WALL_SECONDS PROGRESS OUT [options]}"
progress="${2:?the progress of the schedule at the end of this run, 0 to 1}"
out="${3:?the folder for what this run makes}"
shift 3
folder="$(cd "$(dirname "$0")" && pwd)"

mkdir -p "$out"
export PYTHONUNBUFFERED=1 TOKENIZERS_PARALLELISM=false OMP_NUM_THREADS=1
export TRITON_CACHE_DIR="$out/cache/triton" TORCHINDUCTOR_CACHE_DIR="$out/cache/inductor"
# Not a pipe: processes that outlive a run that was killed would keep it open.
PYTHONPATH="$(cd "$folder/../.." && pwd)/build/mini/fla" python3 "$folder/main.py" \
  --wall "$wall" --to "$progress" --state "$out/state.pt" --out "$out" "$@" > >(tee -a "$out/output.txt") 2>&1
