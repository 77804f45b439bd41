// An NVIDIA GPU as a device.
#pragma once

#include <memory>

#include "backend/gpu/device.hpp"

namespace lily::gpu::cuda {

// The first GPU that can run the kernels; CUDA_VISIBLE_DEVICES chooses among several. Throws Error:
// unsupported (this build has no CUDA driver, no NVIDIA driver, no fitting GPU: which of them, and what was
// found), device.
std::unique_ptr<Device> open_device();

}  // namespace lily::gpu::cuda
