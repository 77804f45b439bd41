// The memory speed of a GPU, as a large copy within it reaches it.
#pragma once

#include "backend/gpu/cuda/runtime.hpp"

namespace lily::gpu::cuda {

// GB/s, bytes read plus bytes written; the best of some copies of up to 512 MiB, far above the cache's size.
// Takes a few milliseconds.
double copy_speed(cudaStream_t stream);

}  // namespace lily::gpu::cuda
