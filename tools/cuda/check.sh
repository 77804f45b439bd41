#!/usr/bin/env bash
# Checks Lily on this machine's NVIDIA GPU: builds, runs the tests that need a GPU, compares whole models with stored
# logits, measures speed on a random checkpoint of the real shape (19.5 GB, written once), and prints a short table
# last. Logs go to BUILD/cuda-check.
#
#   tools/cuda/check.sh [--build DIR] [--synthetic DIR] [build | tests | eval | bench | sanitize]...
#
# Without steps all but sanitize run, which is compute-sanitizer's memcheck and racecheck over the tests (minutes).
# BUILD is configured with the release preset unless it already is.
set -uo pipefail
cd "$(dirname "$0")/../.."

build=build
synthetic=
steps=()
while (($#)); do
  case "$1" in
    --build) build=${2:?}; shift ;;
    --synthetic) synthetic=${2:?}; shift ;;
    build | tests | eval | bench | sanitize) steps+=("$1") ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift
done
((${#steps[@]})) || steps=(build tests eval bench)
synthetic=${synthetic:-$build/synthetic-35b}
logs=$build/cuda-check
mkdir -p "$logs"

failed=0
table=()
# step NAME COMMAND...: runs the command into NAME's log; a row for the table.
step() {
  local name=$1 start=$SECONDS result=passed
  shift
  "$@" > "$logs/$name.log" 2>&1 || { result="FAILED ($?), see $logs/$name.log"; failed=1; tail -15 "$logs/$name.log"; }
  table+=("$(printf '%-28s %4d s  %s' "$name" $((SECONDS - start)) "$result")")
}
# rows NAME PATTERN: lines of NAME's log under its row.
rows() {
  local line
  while IFS= read -r line; do table+=("    $line"); done < <(grep -E "$2" "$logs/$1.log" | uniq | tail -20)
}

run_build() {
  [[ -f $build/build.ninja ]] || step configure cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release
  step build cmake --build "$build" --target lily gpu_backend_tests gpu_cuda_tests gpu_kernel_tests
}

# Skipped tests have run nowhere.
on_gpu() { GTEST_COLOR=no "$@" 2>&1 | tee "$logs/tests"; ! grep -q 'SKIPPED' "$logs/tests" && ! grep -q 'FAILED' "$logs/tests"; }

run_tests() {
  step driver on_gpu "$build/gpu_cuda_tests"
  rows driver '^\[  (PASSED|FAILED)|^backend cuda'
  step kernels on_gpu "$build/gpu_kernel_tests" --gtest_filter='*/cuda*'
  rows kernels '^\[  (PASSED|FAILED)'
  step tokens on_gpu "$build/gpu_backend_tests" --gtest_filter='*/cuda*'
  rows tokens '^\[  (PASSED|FAILED)'
}

run_eval() {
  step eval-tiny "$build/lily" eval --backend cuda --model tests/data/golden/tiny-q4 \
    --golden tests/data/golden/golden-q4.safetensors
  rows eval-tiny .
  step eval-mini "$build/lily" eval --backend cuda --model models/lily-mini \
    --golden tests/data/golden/golden-mini-q4.safetensors
  rows eval-mini .
}

run_bench() {
  [[ -f $synthetic/model.safetensors.index.json ]] || step synth "$build/lily" synth --out "$synthetic"
  step bench "$build/lily" bench --backend cuda --model "$synthetic" --prompt 512 --depth 0,4096,32768 --decode 512
  rows bench .
  step bench-prefill "$build/lily" bench --backend cuda --model "$synthetic" --prompt 4096,16384 --decode 32
  rows bench-prefill .
}

run_sanitize() {
  local tool
  for tool in memcheck racecheck; do
    step "$tool-kernels" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$build/gpu_kernel_tests" --gtest_filter='*/cuda*'
    rows "$tool-kernels" '(ERROR|RACECHECK) SUMMARY|^\[  (PASSED|FAILED)'
    step "$tool-models" compute-sanitizer --tool "$tool" --error-exitcode 1 \
      "$build/gpu_cuda_tests" --gtest_filter='CudaModels.Decode*:CudaModels.Prompts*'
    rows "$tool-models" '(ERROR|RACECHECK) SUMMARY|^\[  (PASSED|FAILED)'
  done
}

for name in "${steps[@]}"; do "run_$name"; done
echo
nvidia-smi --query-gpu=name,driver_version,memory.used,memory.total --format=csv,noheader || true
printf '%s\n' "${table[@]}"
exit $failed
