// Bytes one decode step must move, from the model's formulas and the stored weight formats.
#pragma once

#include "backend/backend.hpp"
#include "checkpoint/checkpoint.hpp"

namespace lily::backend {

// How a backend stores a sequence, in bytes per element (scales of a quantized cache included).
struct StateFormat {
  double kv_bytes = 2;
  double window_bytes = 4;
};

// The step at `position` reads all matrices that one token uses (experts_per_token of the experts, one row of
// the embedding), reads and writes the DeltaNet state, and reads `position` cached tokens and writes one.
// Small vectors count two bytes per value, as published checkpoints store them.
DecodeTraffic decode_traffic(const checkpoint::Checkpoint& checkpoint, const StateFormat& format,
                             int position);

// Bytes of all bound tensors as stored.
std::uint64_t stored_weight_bytes(const checkpoint::Checkpoint& checkpoint);

}  // namespace lily::backend
