// An NVIDIA GPU as a device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/gpu/cuda/kernel_body.hpp"
#include "backend/gpu/device.hpp"

namespace lily::gpu::cuda {

// The first GPU that can run the kernels; CUDA_VISIBLE_DEVICES chooses among several. Throws Error:
// unsupported (this build has no CUDA driver, no NVIDIA driver, no fitting GPU: which of them, and what was
// found), device.
std::unique_ptr<Device> open_device(Bodies bodies = Bodies::fastest);

// The GPU that open_device would take. Throws as it does.
struct GpuMemory {
  std::string text;        // "GPU 0 (NVIDIA H200, compute capability 9.0, 139.8 GiB)"
  std::uint64_t free = 0;  // bytes
  uint multiprocessors = 0;
};
GpuMemory describe_gpu();

}  // namespace lily::gpu::cuda
