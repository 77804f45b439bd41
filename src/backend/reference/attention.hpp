// Gated attention: grouped queries over a cache of all earlier tokens, output gated by a sigmoid.
#pragma once

#include <span>

#include "backend/reference/projection.hpp"
#include "backend/reference/rows.hpp"
#include "checkpoint/checkpoint.hpp"
#include "model/dimensions.hpp"

namespace lily::reference {

// Cache of one attention layer of one sequence.
struct KeyValueCache {
  std::span<float> keys;    // [capacity][kv_rows], normalized and rotated
  std::span<float> values;  // [capacity][kv_rows]
};

// Adds the mixer's output for the normalized rows `h`, the first of which is at `position`, to `residual` and
// appends to the cache. `scores` is scratch: one row of `capacity` values per thread.
void add_attention(const Context& context, const model::Dimensions& dims,
                   const checkpoint::Attention& weights, const Rows& h, int position, KeyValueCache cache,
                   std::span<double> scores, Rows& residual);

}  // namespace lily::reference
