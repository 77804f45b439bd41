// Overlap of a kernel with its neighbours in the stream: programmatic dependent launch where the machine has
// it.
//
//   allow_next()          the next kernel may start its own prologue
//   wait_for_previous()   all earlier kernels have finished and their writes are visible
//
// What earlier kernels of the plan write is read only after wait_for_previous, and nothing is written before
// it. Weights, which nobody writes, and what earlier plans wrote may be read earlier. Elsewhere the order of
// dispatches already says this.
#pragma once

namespace lily::gpu {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
GPU_FN void wait_for_previous() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
GPU_FN void allow_next() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
#else
GPU_FN void wait_for_previous() {}
GPU_FN void allow_next() {}
#endif

}  // namespace lily::gpu
