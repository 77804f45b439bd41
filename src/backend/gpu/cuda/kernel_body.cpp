// The table of the dialect's kernels.
#include "backend/gpu/cuda/kernel_body.hpp"

#include <array>

// Only their addresses are used: under them the runtime finds the kernels that nvcc compiled.
#define LILY_GPU_CUDA_ENTRY(K) extern "C" void K##_kernel();
LILY_GPU_KERNELS(LILY_GPU_CUDA_ENTRY)
#undef LILY_GPU_CUDA_ENTRY

namespace lily::gpu::cuda {

std::span<const KernelBody> dialect_bodies() {
#define LILY_GPU_CUDA_BODY(K)                                                          \
  KernelBody{KernelId::K##_id, reinterpret_cast<const void*>(&K##_kernel), K::threads, \
             std::size_t{tile_blocks<K>()} * WeightBlock::bytes, nullptr},
  static const std::array<KernelBody, kKernelCount> kBodies{LILY_GPU_KERNELS(LILY_GPU_CUDA_BODY)};
#undef LILY_GPU_CUDA_BODY
  return kBodies;
}

}  // namespace lily::gpu::cuda
