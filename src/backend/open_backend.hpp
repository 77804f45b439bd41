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

// Loads the weights. Throws Error(bad_input) for an unknown name, Error(unsupported) for a known backend that
// this build or machine lacks.
std::unique_ptr<Backend> open_backend(const std::string& name,
                                      const std::shared_ptr<const checkpoint::Checkpoint>& checkpoint,
                                      const BackendOptions& options);

}  // namespace lily::backend
