// Opens what a checkpoint folder holds and loads it into a backend; the engine, the benchmark and the
// evaluation begin here.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/memory_plan.hpp"
#include "lily/engine.hpp"

namespace lily::engine {

struct LoadedModel {
  std::shared_ptr<const checkpoint::Checkpoint> checkpoint;
  std::unique_ptr<backend::Backend> backend;
  int context = 0;          // as resolved
  std::string activations;  // "auto (decode exact, prefill fast)"
  std::string kv;           // "f16"
};

// Proves the checkpoint, refuses a context that cannot fit before any weight is read, and loads the weights.
// `context` 0 is the default. Throws as Engine::open does.
LoadedModel open_model(const EngineOptions& options, int context);

// The backend for `requested`; "auto" is cpu, whose kernels read quantized matrices, and the reference for
// checkpoints without.
std::string resolve_backend(const std::string& requested, const checkpoint::Config& config);

// What a loaded model takes.
MemoryNeeds memory_needs(const backend::Backend& backend);

}  // namespace lily::engine
