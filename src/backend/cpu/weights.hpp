// The model's weights in memory, repacked for the kernels, and how they get there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/kernels.hpp"
#include "base/huge_buffer.hpp"
#include "base/machine_memory.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/progress.hpp"

namespace lily::cpu {

// Matrices that read the same input are one packed matrix; each part begins at a multiple of 16 rows.
struct LayerWeights {
  model::LayerKind kind = model::LayerKind::delta_net;
  std::vector<float> input_norm, post_attention_norm;  // [hidden]

  PackedMatrix mixer_in;  // DeltaNet: qkv | z | b | a. Attention: q and gate | k | v.
  std::vector<PackedMatrix>
      mixer_out;  // panels of kPanelColumns columns side by side; the last may be narrower
  int z_row = 0, b_row = 0, a_row = 0;  // DeltaNet
  int k_row = 0, v_row = 0;             // attention

  std::vector<float> convolution;     // [taps][channels], oldest tap first
  std::vector<float> decay, dt_bias;  // [value_heads]; decay = -exp(A_log)
  std::vector<float> head_norm;       // [value_dim]
  std::vector<float> q_norm, k_norm;  // [head_dim]

  PackedMatrix router;  // experts | shared expert's gate
  int shared_gate_row = 0;
  std::vector<PackedMatrix> gate_up;  // per expert gate | up; the shared expert last
  std::vector<PackedMatrix> down;
};

// Rows of the embedding as stored, decoded one at a time.
struct EmbeddingTable {
  checkpoint::Matrix matrix;
  const std::byte* codes = nullptr;
  const std::uint16_t* scales = nullptr;
  const std::uint16_t* biases = nullptr;

  void decode(std::int64_t row, std::span<float> out) const;
};

struct Weights {
  std::vector<LayerWeights> layers;
  EmbeddingTable embedding;
  PackedMatrix head;
  std::vector<float> final_norm;
  HugeBuffer arena;  // everything packed
};

// Reads every tensor once, in file order, in parallel, straight into its packed place. A checkpoint of more
// than half of `memory` is read past the page cache and not kept there. Throws Error: unsupported (a format
// without a kernel; names the tensor), out_of_memory, device.
Weights load_weights(const checkpoint::Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress,
                     std::uint64_t memory = machine_memory());

}  // namespace lily::cpu
