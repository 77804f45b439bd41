// The model's weights in device memory, repacked for the kernels, and how they get there.
#pragma once

#include <vector>

#include "backend/gpu/device.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/progress.hpp"

namespace lily::gpu {

// [row tile][input block][plane] of weight blocks (dialect/weights.h). Matrices that read the same input lie
// below each other; each part begins with a whole tile.
struct DeviceMatrix {
  const uchar* blocks = nullptr;
  uint tiles = 0;
  uint inputs = 0;
  uint planes = 1;
  float guard = 1;  // of the matrix tiles (weight_guard.hpp)

  uint parts() const { return (inputs + WeightBlock::inputs - 1) / WeightBlock::inputs * planes; }
  uint padded_rows() const { return tiles * WeightBlock::rows; }
};

struct LayerWeights {
  model::LayerKind kind = model::LayerKind::delta_net;
  const float* input_norm = nullptr;  // [hidden]
  const float* post_attention_norm = nullptr;

  DeviceMatrix mixer_in;  // DeltaNet: qkv | z | b | a. Attention: q and gate | k | v.
  DeviceMatrix mixer_out;
  uint z_row = 0, b_row = 0, a_row = 0;  // DeltaNet
  uint k_row = 0, v_row = 0;             // attention

  const float* convolution = nullptr;  // [taps][channels], oldest tap first
  const float* rate = nullptr;         // [value_heads]: -exp(A_log)
  const float* dt_bias = nullptr;      // [value_heads]
  const float* head_norm = nullptr;    // [value_dim]
  const float* q_norm = nullptr;       // [head_dim]
  const float* k_norm = nullptr;

  DeviceMatrix router;  // experts | the shared expert's gate
  uint gate_row = 0;
  DeviceMatrix gate, up, down;                       // all experts below each other
  DeviceMatrix shared_gate, shared_up, shared_down;  // in as many planes
};

struct EmbeddingTable {
  const uint* codes = nullptr;
  const bfloat* scales = nullptr;
  const bfloat* biases = nullptr;
  uint bits = 4, group_size = 64;
};

struct Weights {
  std::vector<LayerWeights> layers;
  EmbeddingTable embedding;
  DeviceMatrix head;
  const float* final_norm = nullptr;
  const ulong* turns = nullptr;  // of AttentionPrepare
  DeviceMemory arena;            // everything
};

// Reads every matrix once, in file order, and repacks it in parallel. Throws Error: unsupported (a shape or
// format without a kernel, naming it), out_of_memory, device.
Weights load_weights(const checkpoint::Checkpoint& checkpoint, Device& device, ThreadPool& pool,
                     const Progress& progress);

}  // namespace lily::gpu
