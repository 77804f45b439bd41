// The two ways through the model: many tokens at once (prefill) and one after another (decode).
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/cpu/activations.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/routing.hpp"
#include "backend/cpu/sequence.hpp"
#include "backend/cpu/weights.hpp"
#include "base/thread_pool.hpp"

namespace lily::cpu {

// What both paths work with; borrowed.
struct Context {
  const model::Dimensions& dims;
  const Weights& weights;
  const Kernels& kernels;
  ThreadPool& pool;
};

// Values, zeroed, in huge pages when large.
template <class Value>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t count) : memory_(count * sizeof(Value), "scratch") {}
  Buffer(int rows, int stride) : Buffer(static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride)) {}
  std::size_t bytes() const { return memory_.size(); }
  Value* data() const { return memory_.as<Value>(); }
  Value* at(std::size_t index) const { return data() + index; }
  Value* row(int index, int stride) const { return data() + static_cast<std::ptrdiff_t>(index) * stride; }

 private:
  HugeBuffer memory_;
};
using FloatBuffer = Buffer<float>;
using HalfBuffer = Buffer<std::uint16_t>;  // bf16

// Room for one block of keys and values in codes.
class KvCodeBlock {
 public:
  KvCodeBlock() = default;
  explicit KvCodeBlock(int head_dim)
      : codes_(static_cast<std::size_t>(2 * kAttentionBlock * head_dim), "attention codes"),
        key_scales_(static_cast<std::size_t>(kAttentionBlock * head_dim / kGroup)),
        value_scales_(static_cast<std::size_t>(head_dim)) {}
  KvCodes codes() const {
    return {codes_.as<std::uint8_t>(), key_scales_.data(), codes_.as<std::int8_t>() + codes_.size() / 2,
            value_scales_.data()};
  }

 private:
  HugeBuffer codes_;
  FloatBuffer key_scales_, value_scales_;
};

// Matrix rows padded to whole blocks: outputs of matmul need this room.
inline int padded_rows(const PackedMatrix& matrix) { return matrix.blocks() * kLanes; }

// Values between rows of which a kernel writes 16 at a time: whole pages apart they would compete for a few
// lines of the first-level cache (a tile's results take 57 ns to write then, and 23 with a line more).
inline int stride_of(int columns) { return columns % 1024 == 0 ? columns + kLanes : columns; }
// The same of halves, in whole lines: 32 tokens' rows are asked for together, and of rows a KiB apart a cache
// holds fewer.
inline int half_stride_of(int columns) {
  constexpr int kLine = 2 * kLanes;
  return columns % 512 == 0 ? columns + kLine : (columns + kLine - 1) / kLine * kLine;
}

// Whether so many results are better written past the caches. On two cores of Zen 4 prefill of the 8-layer
// cut then takes 4 % less time, from 128 tokens (2 to 9 MiB a matrix) to 4,096; with 64 tokens 1 %.
template <class Result>
bool are_past_cache(int rows, int stride) {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(stride) * sizeof(Result) >= kBytes;
}

// y += sum of weights[i] * rows[i], in order, of either kind.
inline void add_weighted(const Kernels& kernels, const float* const* rows, const float* weights, int count,
                         int n, float* y) {
  kernels.add_weighted(rows, weights, count, n, y);
}
inline void add_weighted(const Kernels& kernels, const std::uint16_t* const* rows, const float* weights,
                         int count, int n, float* y) {
  kernels.add_weighted_halves(rows, weights, count, n, y);
}

// residual += rows[0] + .. + rows[count - 1], in order.
template <class Value>
void add_to_residual(const Kernels& kernels, const Value* const* rows, int count, int n, float* residual) {
  constexpr float kOnes[] = {1, 1, 1, 1, 1, 1, 1, 1};
  constexpr int kMost = static_cast<int>(std::size(kOnes));
  for (int i = 0; i < count; i += kMost) {
    add_weighted(kernels, rows + i, kOnes, std::min(kMost, count - i), n, residual);
  }
}

// Blocks that a thread takes at once: about 96 KiB of codes, some 5 us of reading, so that the counter costs
// nothing and the threads still finish together.
inline std::int64_t block_grain(const PackedMatrix& matrix) {
  const auto blocks = static_cast<std::int64_t>((std::size_t{96} << 10) / matrix.block_bytes());
  return blocks < 1 ? 1 : blocks;
}

// Widest mixer_in, router and so on, over all layers: what scratch must hold.
struct ScratchSizes {
  int mixer_rows = 0, router_rows = 0, expert_rows = 0, inner_columns = 0, expert_columns = 0;
  int panels = 0;  // of mixer_out
};
ScratchSizes scratch_sizes(const Context& context);
// Columns of mixer_out.
int inner_columns(const LayerWeights& layer);

// Gates of one token's value heads [first, last) from mixer_in's output: alpha = exp(decay * softplus(a +
// dt_bias)), beta = sigmoid(b).
void delta_net_gates(const LayerWeights& layer, const float* mixed, int first, int last, float* alpha,
                     float* beta);
// Query and key norm, rope, query scale, and the KV cache row of one token and one KV head. `mixed` is
// mixer_in's output; queries [heads][head_dim] come out apart from the gates.
void prepare_attention(const Context& context, const LayerWeights& layer, const CpuSequence& sequence,
                       int attention_layer, int kv_head, int position, const float* cosines,
                       const float* sines, float* mixed, float* queries);
// Divides one head's weighted sum of values by its sum of weights and multiplies with sigmoid(gate).
void finish_attention(const Context& context, const float* mixed, int head, float sum, float* value);

class Decoder {
 public:
  Decoder(const Context& context, bool exact);
  // Appends one token; logits [vocabulary] of it.
  void step(CpuSequence& sequence, TokenId token, std::span<float> logits);

 private:
  void multiply(const PackedMatrix& matrix, const ActivationRow& row, float* out);
  template <class Work>
  void for_all_blocks(int count, int blocks, int last_blocks, std::int64_t grain, const Work& work);
  void normalize_and_quantize(const std::vector<float>& factor, const ActivationRow& row);
  void delta_net(const LayerWeights& layer, CpuSequence& sequence, int delta_layer);
  void delta_net_head(const LayerWeights& layer, CpuSequence& sequence, int delta_layer, int key_head);
  void attention(const LayerWeights& layer, CpuSequence& sequence, int attention_layer);
  void quantize_inner(int column, int count);
  void add_mixer_output(const LayerWeights& layer);
  void experts(const LayerWeights& layer, int layer_index);

  Context context_;
  ScratchSizes sizes_;
  FloatBuffer hidden_, normed_, mixed_, inner_, output_, router_, expert_, expert_out_, logits_;
  FloatBuffer convolved_, gates_, queries_, attention_, cosines_, sines_;
  ActivationRows input_row_, inner_row_, expert_rows_;
  std::vector<Route> routes_;
  std::vector<const float*> expert_outputs_;
  std::vector<float> expert_weights_;
  std::vector<const float*> window_rows_;    // [taps], oldest first
  std::vector<const float*> panel_outputs_;  // of mixer_out
};

class Prefiller {
 public:
  // Tokens that pass through a layer's mixer together: their 25 MB of inputs find room in a last-level cache.
  static constexpr int kChunk = 512;

  // `format`: of the activations that matrices multiply, but for the router's and the head's.
  Prefiller(const Context& context, RowFormat format);
  // Appends all tokens, chunk by chunk; logits of the last one.
  void run(CpuSequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
           const backend::PrefillControl& control);
  // Memory that passes over tokens take, most of it by prompts as long as the kernels' expert_chunk.
  std::uint64_t bytes() const;

 private:
  struct ExpertTask {
    int expert = 0;
    int first = 0;  // slot
    int count = 0;
  };

  struct ThreadScratch {
    FloatBuffer normed, gate_up;
    HalfBuffer gate_up_halves;
    ActivationRows rows;
    std::vector<ActivationRow> gathered;
    std::vector<const float*> window;  // [taps]
    KvCodeBlock kv_codes;
  };

  void chunk(CpuSequence& sequence, std::span<const TokenId> tokens, const backend::PrefillControl& control,
             const std::function<void(int layer)>& after_layer);
  // The product for blocks [begin, end), `past_cache` if the kernels can.
  void multiply_blocks(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                       float* out, int stride, bool past_cache) const;
  void multiply_blocks(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                       std::uint16_t* out, int stride, bool past_cache) const;
  template <class Result>
  void multiply(const PackedMatrix& matrix, const ActivationRow* rows, int tokens, Result* out, int stride);
  void normalize_and_quantize(const std::vector<float>& factor, int first, int tokens, bool for_router);
  void delta_net(const LayerWeights& layer, CpuSequence& sequence, int delta_layer, int first, int tokens);
  void attention(const LayerWeights& layer, CpuSequence& sequence, int attention_layer, int first,
                 int tokens);
  void attend_group(const CpuSequence& sequence, int attention_layer, int base, int kv_head, int first,
                    int count, int thread);
  void experts(const LayerWeights& layer, int layer_index, int tokens);
  void route_tokens(int layer_index, int tokens);
  // Adds the experts' outputs, which go to `slots` first, to the residual.
  template <class Result>
  void run_experts(const LayerWeights& layer, int tokens, const Buffer<Result>& slots, int stride);
  // silu(gate) * up of a task's tokens, to the rows that down multiplies.
  void run_gate_up(const LayerWeights& layer, const ExpertTask& task, ThreadScratch& scratch);
  template <class Result>
  void add_mixer_output(const LayerWeights& layer, int first, int tokens, const Buffer<Result>& output,
                        int stride);
  // inner_rows_ of one token.
  void round_inner(const LayerWeights& layer, int token);
  void head(int token, std::span<float> logits);

  Context context_;
  ScratchSizes sizes_;
  decltype(Kernels::delta_net_heads) delta_net_heads_;
  bool attention_in_codes_;
  bool on_tiles_;   // DeltaNet and attention
  bool in_halves_;  // results of wide rows' products, of experts and mixer_out
  FloatBuffer hidden_, mixed_, convolved_, inner_, output_, router_, slots_, gates_, queries_,
      attention_sums_;
  HalfBuffer output_halves_, slot_halves_;
  FloatBuffer angles_, logits_;
  ActivationRows input_rows_, router_rows_, inner_rows_, head_row_;
  std::vector<ActivationRow> panel_rows_;  // [panels of mixer_out][kChunk], parts of inner_rows_
  std::vector<Route> routes_;              // [tokens][experts_per_token]
  std::vector<int> slot_of_;               // [tokens][experts_per_token + 1]; the shared expert last
  std::vector<int> token_of_slot_;
  std::vector<int> next_slot_;  // [experts]
  std::vector<ExpertTask> tasks_;
  std::vector<ThreadScratch> threads_;
};

}  // namespace lily::cpu
