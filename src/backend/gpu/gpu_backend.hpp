// The backend over any GPU device: weights, sequences, and passes recorded as plans.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/gpu/device.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/engine.hpp"

namespace lily::gpu {

// Loads the weights into the device; `threads` (0: all cores) read and repack them. Throws Error: unsupported
// (shapes and formats without a kernel), out_of_memory, device.
std::unique_ptr<backend::Backend> open_gpu_backend(std::unique_ptr<Device> device,
                                                   std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
                                                   KvFormat kv, int threads, const Progress& progress);

}  // namespace lily::gpu
