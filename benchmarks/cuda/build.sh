#!/usr/bin/env bash
# Builds the CUDA kernel benchmarks with nvcc and ninja alone, for machines that lack the libraries of the whole build:
# benchmarks/cuda/build.sh [program]. Compiles only what changed since the last time.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/cuda-benchmarks/run}
folder=$(dirname "$program")
mkdir -p "$folder"
{
  echo "builddir = $folder"
  echo 'flags = -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -Isrc -Iinclude'
  printf 'rule compile\n  command = nvcc $flags -MMD -MF $out.d -c -o $out $in\n  depfile = $out.d\n  deps = gcc\n'
  printf 'rule link\n  command = nvcc $flags -o $out $in\n'
  objects=()
  for source in benchmarks/cuda/*.cu src/backend/gpu/cuda/*_kernels.cu src/backend/gpu/cuda/kernels/*.cu \
                src/backend/gpu/cuda/kernel_body.cpp src/backend/gpu/cuda/kernels/hopper_bodies.cpp; do
    object=$folder/${source//\//_}.o
    objects+=("$object")
    echo "build $object: compile $source"
  done
  echo "build $program: link ${objects[*]}"
} > "$folder/build.ninja"
ninja -f "$folder/build.ninja" --quiet "$program"
