#!/usr/bin/env bash
# Builds the kernel tests for 64-bit ARM into the given folder and runs them under qemu; exit code 77 says
# "skipped" to CTest.  usage: tests/arm/run.sh FOLDER
set -euo pipefail

source="$(cd "$(dirname "$0")" && pwd)"
folder="${1:?usage: tests/arm/run.sh FOLDER}"
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v "$tool" > /dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
[[ -d /usr/src/googletest ]] || { echo "skipped: the sources of GoogleTest are not in /usr/src/googletest"; exit 77; }

cmake -S "$source" -B "$folder" -G Ninja \
  -DCMAKE_TOOLCHAIN_FILE="$source/../../cmake/toolchains/aarch64-linux-gnu.cmake" > "$folder.log" 2>&1 ||
  { cat "$folder.log"; exit 1; }
cmake --build "$folder" --target arm_kernel_tests
# Every test on a processor with all instructions that the kernels know, and what chooses among kernels or differs
# between them also on processors with fewer.
best_on() {  # PROCESSOR: the last instruction set that is tested on it
  qemu-aarch64 -cpu "$1" "$folder/arm_kernel_tests" --gtest_list_tests --gtest_filter='Equality.MatrixProducts/*' |
    grep -o 'MatrixProducts/[a-z0-9_]*' | tail -n 1
}
while read -r processor best filter; do
  found="$(best_on "$processor")"
  [[ "$found" == "MatrixProducts/$best" ]] ||
    { echo "on $processor the best kernels are $found, not $best" >&2; exit 1; }
  qemu-aarch64 -cpu "$processor" "$folder/arm_kernel_tests" --gtest_filter="$filter"
done << 'END'
max neon_i8mm *
neoverse-n1 neon_dotprod *Matmul*:*Equality*
cortex-a72 generic *Matmul*:*Equality*
END
