// One conversation on a device: its state, and the room that a pass through the model needs.
#pragma once

#include <optional>

#include "backend/backend.hpp"
#include "backend/gpu/buffer.hpp"
#include "lily/engine.hpp"
#include "model/dimensions.hpp"

namespace lily::gpu {

// States of which a step reads one and writes the next (DeltaRing).
constexpr uint kStateRing = 2;

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

  Buffer<uint> counters;  // position, step
  Buffer<float> states;   // [DeltaNet layer][ring][value_heads][128][128]
  Buffer<float> windows;  // [DeltaNet layer][8][channels]
  // [attention layer][kv head][capacity][256] halves, or codes with scales [capacity][4]
  Buffer<std::byte> keys, values;
  Buffer<float> key_scales, value_scales;
};

// Room for the tokens of a pass, reused by all layers.
struct PassBuffers {
  PassBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape);

  Buffer<uint> tokens;
  Buffer<float> x;           // [rows][hidden]: the residual stream
  Buffer<float> projection;  // [rows][rows of mixer_in]
  Buffer<float> inner;       // [rows][input of mixer_out]
  Buffer<float> queries;     // [rows][heads][256]
  Buffer<float> router;      // [rows][rows of the router]
  Buffer<float> activations;
  Buffer<float> logits;  // [logit_rows][vocabulary]
  // Of one token: attention's splits.
  Buffer<float> partial, maximum, sums;
};

// What a pass of several tokens needs besides: rows as halves, DeltaNet's chunks, sorted experts.
struct PrefillBuffers {
  PrefillBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape);

  Buffer<half> halves;   // [rows][widest input]
  Buffer<float> scales;  // [rows]

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

// A layer's part of the cache.
struct KvRegions {
  Region keys, values, key_scales, value_scales;  // the last two empty for halves
};

class GpuSequence final : public backend::Sequence {
 public:
  GpuSequence(Device& device, const model::Dimensions& dims, const SequenceShape& shape);
  static std::uint64_t bytes(const model::Dimensions& dims, const SequenceShape& shape);

  void reset() noexcept override;
  void advance(int tokens) {
    position_ += tokens;
    ++step_;
  }

  // Makes the device's counters those of this sequence, and the state zero at its start. Before every pass.
  void prepare();

  const uint* position_counter() const { return state_.counters.at(0); }
  const uint* step_counter() const { return state_.counters.at(1); }
  Region counters() const { return state_.counters.first(2); }
  // `layer` counts DeltaNet layers: its ring of states, its window.
  Region states(int layer) const;
  Region window(int layer) const;
  // `layer` counts attention layers.
  KvRegions kv(int layer) const;

  const SequenceShape& shape() const { return shape_; }
  const PassBuffers& pass() const { return pass_; }
  const PrefillBuffers& prefill() const { return prefill_; }
  // The recorded step, made at the first one.
  std::optional<Plan>& decode_plan() { return decode_plan_; }

 private:
  GpuSequence(Device& device, const model::Dimensions& dims, const SequenceShape& shape, Allocator memory);

  Device& device_;
  const model::Dimensions& dims_;
  SequenceShape shape_;
  StateBuffers state_;
  PassBuffers pass_;
  PrefillBuffers prefill_;
  std::optional<Plan> decode_plan_;
  uint step_ = 0;
};

}  // namespace lily::gpu
