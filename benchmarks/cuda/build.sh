#!/usr/bin/env bash
# Builds the CUDA kernel benchmarks with nvcc alone, for machines that lack the libraries of the whole build:
# benchmarks/cuda/build.sh [program]. Compiles only what changed since the last time.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=${1:-build/cuda-benchmarks/run}
objects=$(dirname "$program")
mkdir -p "$objects"
cat > "$objects/Makefile" <<'MAKE'
SOURCES := $(wildcard benchmarks/cuda/*.cu src/backend/gpu/cuda/*_kernels.cu src/backend/gpu/cuda/kernels/*.cu) \
  src/backend/gpu/cuda/kernel_body.cpp src/backend/gpu/cuda/kernels/hopper_bodies.cpp
FLAGS := -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -Isrc -Iinclude
OBJECTS := $(foreach source,$(SOURCES),$(DIRECTORY)/$(subst /,_,$(source)).o)
$(PROGRAM): $(OBJECTS)
	nvcc -gencode=arch=compute_90a,code=sm_90a -o $@ $^
define RULE
$(DIRECTORY)/$(subst /,_,$(1)).o: $(1)
	nvcc $(FLAGS) -MMD -MF $$@.d -c -o $$@ $$<
-include $(DIRECTORY)/$(subst /,_,$(1)).o.d
endef
$(foreach source,$(SOURCES),$(eval $(call RULE,$(source))))
MAKE
make --silent -j"$(nproc)" -f "$objects/Makefile" DIRECTORY="$objects" PROGRAM="$program"
