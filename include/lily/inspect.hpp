// What a checkpoint is, what it needs and what this machine has, without loading the weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "lily/engine.hpp"

namespace lily {

struct InspectOptions {
  std::filesystem::path model;
  std::string backend = "auto";  // as EngineOptions::backend
  int context = 0;               // as EngineOptions::context
  KvFormat kv = KvFormat::f16;
};

// What the proof of the checkpoint's files found.
struct CheckpointReport {
  std::string layout;        // "mlx" or "hugging_face"
  std::string quantization;  // "4 bit, groups of 64" or "none"
  int shards = 0;
  int tensors = 0;          // each of the architecture's, exactly once
  int skipped_tensors = 0;  // vision and draft head
  std::uint64_t tensor_bytes = 0;
  std::vector<std::string> notes;
};

// Memory at the context asked for, of the backend asked for.
struct MemoryPlan {
  int context = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t sequence_bytes = 0;
  // Of these, on a GPU: room for the tokens of a prompt that go through a layer together. It is bounded,
  // however long the context. On a CPU such room is taken when it is needed, and 0 here.
  std::uint64_t activation_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t machine_bytes = 0;  // memory this process may use; of a GPU, what is free
  bool fits = false;
};

// What one decode step moves. The step at depth d moves fixed_bytes + (d + 1) * bytes_per_cached_token.
struct StepCost {
  double weight_bytes = 0;
  double state_bytes = 0;  // DeltaNet state and convolution window, read and written
  double fixed_bytes = 0;  // the two together
  double bytes_per_cached_token = 0;
};

struct MachineReport {
  std::string backend;          // asked for, or that would run this checkpoint
  std::string device;           // the GPU that it would take: its name, its memory; empty without one
  int cores = 0;                // this process may use
  std::string instruction_set;  // the CPU kernels that would run: "avx512-vnni"
};

struct Inspection {
  std::string model_id;      // the folder's name
  std::string architecture;  // "qwen3_5_moe"
  // Named as in config.json, in the order of docs/model.md.
  std::vector<std::pair<std::string, std::int64_t>> dimensions;
  CheckpointReport checkpoint;
  int vocabulary_size = 0;  // ids with a token
  MemoryPlan memory;
  StepCost step;
  MachineReport machine;
};

// Proves the checkpoint as Engine::open does. Throws Error: not_found, bad_input, unsupported; too_long for a
// context beyond the model's. A plan that does not fit is reported, not thrown.
Inspection inspect(const InspectOptions& options);

}  // namespace lily
