// Chooses a backend by name.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/engine.hpp"

namespace lily::backend {

struct BackendOptions {
  int threads = 0;  // 0: all cores
  Activations activations = Activations::automatic;
  KvFormat kv = KvFormat::f16;
  Progress progress;
};

// What a backend runs on, found without opening it. Throws as open_backend does.
struct Machine {
  std::string device;            // "GPU 0 (NVIDIA H200, compute capability 9.0, 139.8 GiB)"; empty: the CPU
  std::uint64_t memory = 0;      // bytes that weights and sequences may take
  unsigned multiprocessors = 0;  // of a GPU
};
Machine machine_of(const std::string& backend);

// Loads the weights. Throws Error(bad_input) for an unknown name, Error(unsupported) for a known backend that
// this build or machine lacks.
std::unique_ptr<Backend> open_backend(const std::string& name,
                                      const std::shared_ptr<const checkpoint::Checkpoint>& checkpoint,
                                      const BackendOptions& options);

}  // namespace lily::backend
