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
# `max` has the dot product instructions, as every core the NEON kernels are meant for.
qemu-aarch64 -cpu max "$folder/arm_kernel_tests"
