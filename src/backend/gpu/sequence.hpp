// One conversation on a device: its state, and the room that a pass through the model needs.
#pragma once

#include <optional>

#include "backend/backend.hpp"
#include "backend/gpu/device.hpp"
#include "model/dimensions.hpp"

namespace lily::gpu {

// States of which a step reads one and writes the next (DeltaStep).
constexpr uint kStateRing = 2;

// Elements of everything a sequence holds.
struct SequenceSizes {
  SequenceSizes(const model::Dimensions& dims, int capacity, uint rows, uint multiprocessors);
  std::uint64_t bytes() const;

  std::size_t state, window,
      kv;  // of one layer: of one state, of the window, of the keys (and of the values)
  std::size_t delta_layers, attention_layers;
  std::size_t hidden, projection, inner, queries, splits, router, activations, logits;  // of the pass
};

// Room for `rows` tokens of a pass, reused by all layers.
struct PassBuffers {
  PassBuffers(Device& device, const SequenceSizes& sizes, uint rows);

  uint rows;  // tokens that a pass may have
  DeviceMemory tokens, x, projection, inner, queries, partial, maximum, sums, router, activations, logits;
};

class GpuSequence final : public backend::Sequence {
 public:
  // `rows`: tokens that a pass may have.
  GpuSequence(Device& device, const model::Dimensions& dims, int capacity, uint rows);

  void reset() noexcept override;
  void advance(int tokens) {
    position_ += tokens;
    ++step_;
  }

  // Makes the device's counters those of this sequence, and the state zero at its start. Before every pass.
  void prepare();

  const uint* position_counter() const { return counters_.as<uint>(0); }
  const uint* step_counter() const { return counters_.as<uint>(1); }
  Region counters() const { return region(counters_.as<uint>(), 2); }

  // `layer` counts DeltaNet layers: its ring of states, its window.
  Region states(int layer) const;
  Region window(int layer) const;
  // `layer` counts attention layers.
  Region keys(int layer) const;
  Region values(int layer) const;

  const PassBuffers& buffers() const { return buffers_; }
  // The recorded step, made at the first one.
  std::optional<Plan>& decode_plan() { return decode_plan_; }

 private:
  Device& device_;
  SequenceSizes sizes_;
  DeviceMemory counters_, states_, windows_, kv_;
  PassBuffers buffers_;
  std::optional<Plan> decode_plan_;
  uint step_ = 0;
};

}  // namespace lily::gpu
