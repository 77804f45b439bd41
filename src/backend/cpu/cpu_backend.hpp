// The CPU backend: integer dot products over 4-bit codes, chosen by instruction set at run time.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/engine.hpp"

namespace lily::cpu {

struct CpuOptions {
  int threads = 0;  // 0: all cores
  Activations activations = Activations::automatic;
  KvFormat kv = KvFormat::f16;
  std::string instruction_set;  // empty: the best this machine has; else a name, for tests
  Progress progress;
};

// Reads and repacks the weights. Throws Error(unsupported) for formats without a kernel (bf16 matrices, group
// sizes other than 64 and 128), naming the tensor; out_of_memory when they do not fit.
std::unique_ptr<backend::Backend> open_cpu_backend(std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
                                                   const CpuOptions& options);

}  // namespace lily::cpu
