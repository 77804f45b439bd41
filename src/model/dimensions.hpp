// The architecture on one page: the numbers of a Qwen3.5/3.6 MoE model and everything derived from them.
//
// Source of all formulas: docs/model.md. Every other file takes sizes from here.
#pragma once

#include <cstdint>
#include <vector>

namespace lily::model {

enum class LayerKind { delta_net, attention };

// As found in config.json's text_config, checked by checkpoint::read_config. The comments give 35B-A3B.
struct Dimensions {
  int hidden_size = 0;            // 2048
  int vocabulary = 0;             // 248,320 rows of embedding and head (ids beyond the tokenizer exist)
  int max_positions = 0;          // 262,144
  double rms_norm_eps = 0;        // 1e-6
  std::vector<LayerKind> layers;  // 40: three delta_net, one attention, repeated

  // Gated attention
  int attention_heads = 0;  // 16 query heads
  int kv_heads = 0;         // 2
  int head_dim = 0;         // 256
  int rotary_dim = 0;       // 64 of the 256
  double rope_theta = 0;    // 1e7

  // Gated DeltaNet
  int key_heads = 0;    // 16
  int value_heads = 0;  // 32
  int key_dim = 0;      // 128 per head
  int value_dim = 0;    // 128 per head
  int conv_kernel = 0;  // 4

  // Mixture of experts
  int experts = 0;             // 256
  int experts_per_token = 0;   // 8
  int expert_size = 0;         // 512
  int shared_expert_size = 0;  // 512

  int layer_count() const { return static_cast<int>(layers.size()); }
  int delta_net_layers() const;
  int attention_layers() const;

  int attention_rows() const { return attention_heads * head_dim; }    // 4096: input of o_proj
  int query_gate_rows() const { return 2 * attention_rows(); }         // 8192: q_proj, query|gate per head
  int kv_rows() const { return kv_heads * head_dim; }                  // 512
  int queries_per_kv() const { return attention_heads / kv_heads; }    // 8
  int key_rows() const { return key_heads * key_dim; }                 // 2048
  int value_rows() const { return value_heads * value_dim; }           // 4096
  int conv_channels() const { return 2 * key_rows() + value_rows(); }  // 8192: q | k | v
  int values_per_key() const { return value_heads / key_heads; }       // 2
};

// State of one sequence, in elements.
struct StateSizes {
  std::int64_t delta_net = 0;     // fp32: layers * value_heads * value_dim * key_dim
  std::int64_t conv_window = 0;   // layers * (conv_kernel - 1) * conv_channels
  std::int64_t kv_per_token = 0;  // layers * 2 * kv_rows
};
StateSizes state_sizes(const Dimensions& dims);

// Work of one token. Bytes of weights depend on their formats, so they come from the bound checkpoint.
struct TokenCost {
  double decode_multiply_adds = 0;                   // all matrices, head included
  double prefill_operations = 0;                     // 2 * multiply-adds without the head: 4.87e9 for 35B-A3B
  double attention_operations_per_cached_token = 0;  // 163,840 for 35B-A3B
};
TokenCost token_cost(const Dimensions& dims);

}  // namespace lily::model
