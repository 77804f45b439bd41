// The backend over any GPU device: weights, sequences, and passes recorded as plans.
#pragma once

#include <memory>

#include "backend/backend.hpp"
#include "backend/gpu/device.hpp"
#include "backend/gpu/sequence_memory.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/engine.hpp"

namespace lily::gpu {

// Loads the weights into the device; `threads` (0: all cores) read and repack them. Throws Error: unsupported
// (shapes and formats without a kernel), out_of_memory, device.
std::unique_ptr<backend::Backend> open_gpu_backend(std::unique_ptr<Device> device,
                                                   std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
                                                   KvFormat kv, int threads, const Progress& progress);

// What a sequence of that backend takes on a device with so many multiprocessors.
SequenceMemory sequence_memory(const model::Dimensions& dims, int capacity, KvFormat kv,
                               uint multiprocessors);
// Of its cache, per cached value.
double kv_value_bytes(KvFormat kv);

}  // namespace lily::gpu
