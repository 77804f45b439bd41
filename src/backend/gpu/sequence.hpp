// One conversation on a device: its state, and the room that a pass through the model needs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/gpu/buffer.hpp"
#include "backend/gpu/sequence_memory.hpp"
#include "lily/engine.hpp"
#include "model/dimensions.hpp"

namespace lily::gpu {

// Steps that the device may be ahead of what the host has read (token_stream.hpp).
constexpr uint kStepsAhead = 2;
// States of which a step reads one and writes the next (DeltaRing): as many as the steps that may have to be
// undone, and the one before them.
constexpr uint kStateRing = kStepsAhead + 1;
// Tokens that the host has not read yet.
constexpr uint kIdRing = kStepsAhead + 1;
static_assert(DeltaRing::window_rows >= DeltaRing::taps + kStepsAhead,
              "an undone step left the window's rows");

// What a pass finds on the device: the position of its first token, the number of the step, and its tokens.
// They lie there so that a recorded step stays the same from token to token.
class PassInputs {
 public:
  PassInputs(const uint* words, uint tokens) : words_(words), tokens_(tokens) {}

  // As the device reads them.
  static constexpr std::size_t kHeader = 2;
  const uint* position() const { return words_; }
  const uint* step() const { return words_ + 1; }
  const uint* tokens() const { return words_ + kHeader; }
  Region region() const { return gpu::region(words_, kHeader + tokens_); }
  uint count() const { return tokens_; }

 private:
  const uint* words_;
  uint tokens_;
};

// What a sequence is made for.
struct SequenceShape {
  int capacity = 0;
  uint rows = 1;  // tokens that a pass may have
  KvFormat kv = KvFormat::f16;
  uint multiprocessors = 1;

  uint logit_rows() const;  // tokens whose logits are there at once
};

// State that outlives a pass, of all layers.
struct StateBuffers {
  StateBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape);

  Buffer<uint> prompt;    // inputs of the passes of a prompt, one behind the other
  Buffer<uint> step;      // inputs of a step: position, step, token
  Buffer<float> states;   // [DeltaNet layer][ring][value_heads][128][128]
  Buffer<float> windows;  // [DeltaNet layer][8][channels]
  // [attention layer][kv head][capacity][256] halves, or codes with scales [capacity][4]
  Buffer<std::byte> keys, values;
  Buffer<float> key_scales, value_scales;
};

// Room for the tokens of a pass, reused by all layers.
struct PassBuffers {
  PassBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape);

  Buffer<float> x;           // [rows][hidden]: the residual stream
  Buffer<float> projection;  // [rows][rows of mixer_in]
  Buffer<float> inner;       // [rows][input of mixer_out]
  Buffer<float> queries;     // [rows][heads][256]
  Buffer<float> router;      // [rows][rows of the router]
  Buffer<float> activations;
  Buffer<float> logits;  // [logit_rows][vocabulary]
  // Of up to kFewTokens: attention's splits.
  Buffer<float> partial, maximum, sums;
};

// What a pass of several tokens needs besides: rows as halves, DeltaNet's chunks, sorted experts.
struct PrefillBuffers {
  PrefillBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape);

  Buffer<half> halves;   // [rows][widest input]
  Buffer<float> scales;  // [rows]

  Buffer<half> keys, values;  // of a layer, [kv head][capacity][256], if the cache has codes

  Buffer<float> q, k, v, beta, log_decay;
  Buffer<float> decay, u;
  Buffer<half> w, p;

  Buffer<uint> expert, count, offset, order, tile_expert, tile_first;
  Buffer<float> weight;         // [rows][picks]
  Buffer<half> expert_halves;   // [rows * picks][expert_size]
  Buffer<float> expert_scales;  // [rows * picks]
  Buffer<half> expert_y;        // [rows * picks][hidden]
  Buffer<float> expert_y_scales;
  Buffer<float> shared_activations;  // [rows][shared_size]
  Buffer<half> shared_halves;
  Buffer<float> shared_scales;
  Buffer<float> shared_y;  // [rows][hidden]
};

// What choosing a token needs (args/sample.h).
struct SampleBuffers {
  SampleBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape);

  uint slices = 1, slice = 1;  // of the vocabulary
  Buffer<uint> history;        // [vocabulary]
  Buffer<float> bias;          // [vocabulary]
  Buffer<SampleSettings> settings;
  Buffer<uint> drawn;
  Buffer<float> best_logit;  // [slices, or threadgroups of the head]
  Buffer<uint> best_id;
  Buffer<uint> histogram;
  Buffer<ulong> slice_weight;  // [slices]
  Buffer<uint> list, count;    // [slices][slice], [slices]
  Buffer<uint> ids;            // [kIdRing], shared with the host
};

// A layer's part of the cache.
struct KvRegions {
  Region keys, values, key_scales, value_scales;  // the last two empty for halves
};

// The plans that run again and again, each made when it is first needed.
struct SequencePlans {
  std::unique_ptr<PreparedPlan> logits;   // a step up to its logits
  std::unique_ptr<PreparedPlan> choose;   // a token from logits that are there
  std::unique_ptr<PreparedPlan> best;     // a step, and the best token by its logits as they are
  std::unique_ptr<PreparedPlan> sampled;  // a step, and a token by all rules
};

class GpuSequence final : public backend::Sequence {
 public:
  GpuSequence(Device& device, const model::Dimensions& dims, const SequenceShape& shape);
  // Waits for what the device still does with the memory.
  ~GpuSequence() override;
  static SequenceMemory memory(const model::Dimensions& dims, const SequenceShape& shape);

  void reset() noexcept override;
  void advance(int tokens) {
    position_ += tokens;
    ++step_;
  }

  // Brings tokens to the device, in passes of shape().rows, and makes the state zero at the sequence's start.
  void prepare_prompt(std::span<const TokenId> tokens);
  // The inputs of the pass that begins with token `first` of that prompt and has `count`.
  PassInputs prompt_pass(int first, int count) const;
  // The same for one step, which begins `back` steps before the sequence's end.
  void prepare_step(TokenId token, int back = 0);
  PassInputs step_inputs() const { return {state_.step.data(), 1}; }

  // `layer` counts DeltaNet layers: its ring of states, its window.
  Region states(int layer) const;
  Region window(int layer) const;
  // `layer` counts attention layers.
  KvRegions kv(int layer) const;

  const SequenceShape& shape() const { return shape_; }
  const PassBuffers& pass() const { return pass_; }
  const PrefillBuffers& prefill() const { return prefill_; }
  const SampleBuffers& sample() const { return sample_; }
  // The rules of the tokens that are chosen from now on.
  void prepare_sampling(const backend::SamplingRules& rules);

  // Whether the first row of the logits is that of the sequence's last token.
  bool has_logits() const { return has_logits_; }
  void set_has_logits(bool has) { has_logits_ = has; }

  SequencePlans& plans() { return plans_; }

 private:
  GpuSequence(Device& device, const model::Dimensions& dims, const SequenceShape& shape, Allocator memory);

  Device& device_;
  const model::Dimensions& dims_;
  SequenceShape shape_;
  StateBuffers state_;
  PassBuffers pass_;
  PrefillBuffers prefill_;
  SampleBuffers sample_;
  SequencePlans plans_;
  std::vector<uint> prompt_words_;
  uint step_ = 0;
  bool has_logits_ = false;

  void clear_state();
};

}  // namespace lily::gpu
