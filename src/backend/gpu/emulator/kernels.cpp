// Every kernel, compiled for the host.
#include "backend/gpu/emulator/kernels.hpp"

#include <array>

#include "backend/gpu/kernels/all.h"

namespace lily::gpu::emulator {

const Kernel& kernel(KernelId id) {
#define LILY_GPU_EMULATED(K) make_kernel<K>(#K, K##_entry),
  static const std::array<Kernel, kKernelCount> kTable{LILY_GPU_KERNELS(LILY_GPU_EMULATED)};
#undef LILY_GPU_EMULATED
  return kTable[static_cast<std::size_t>(id)];
}

}  // namespace lily::gpu::emulator
