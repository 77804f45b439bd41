// All kernels by name: the one place where a new kernel is announced to hosts and tests.
#pragma once

#define LILY_GPU_KERNELS(KERNEL) \
  KERNEL(TopExperts)             \
  KERNEL(CountExperts)           \
  KERNEL(ExpertOffsets)          \
  KERNEL(SortByExpert)           \
  KERNEL(DeltaScan)
