// Opens a checkpoint folder in two steps, proof and load, so that whatever can fail fails before minutes are
// spent on reading weights. The engine, the benchmark and the evaluation begin here.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/memory_plan.hpp"
#include "lily/engine.hpp"

namespace lily::engine {

// Throws Error(bad_input) naming the option that is out of its range.
void check_options(const EngineOptions& options);

// "auto" resolved: cpu for quantized weights, for which it has kernels, and the reference for others.
std::string resolve_backend(const std::string& requested, const checkpoint::Config& config);

// Throws Error(bad_input) when the tokenizer has ids for which the model has no row.
void check_vocabulary(std::size_t tokenizer_ids, const model::Dimensions& dims);

// A checkpoint that is known to be right and to fit; nothing of its weights is read yet.
struct ProvedModel {
  std::shared_ptr<const checkpoint::Checkpoint> checkpoint;
  std::string backend;  // "auto" resolved
  int context = 0;      // as resolved
};

struct LoadedModel {
  std::unique_ptr<backend::Backend> backend;
  std::string activations;  // "auto (decode exact, prefill fast)"
  std::string kv;           // "f16"
};

// Both throw as Engine::open does. `context` 0 is the default.
ProvedModel prove_model(const EngineOptions& options, int context);
LoadedModel load_model(const EngineOptions& options, const ProvedModel& proved);

// What a loaded model takes.
MemoryNeeds memory_needs(const backend::Backend& backend);

}  // namespace lily::engine
