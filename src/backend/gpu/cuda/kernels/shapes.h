// How much a block of each Hopper body takes on, and how it divides its shared memory.
#pragma once

#include "backend/gpu/cuda/kernels/layout.h"

namespace lily::gpu::hopper {

// Products of token rows with weights (multiply.h).
struct Multiply128 {
  enum : uint {
    threads = 256,
    tokens = 128,
    tiles = 8,
    weight_bytes = tiles * 512,  // of a stage
    factor_bytes = tiles * 256,  // of four stages
    factor_slots = 4,
    ring_bytes = 5 * (tokens * kRowBytes + weight_bytes),
    factors_at = ring_bytes,
    rows_at = factors_at + factor_slots * factor_bytes,
    scales_at = rows_at + tokens * 4,
    shared_bytes = scales_at + tokens * 4
  };
};

// Stages of the ring: short rows of tokens leave room for more, which hide memory's latency where weights are
// what costs.
template <uint kTokens>
LAYOUT_FN uint stages() {
  return kTokens == 128 ? 5 : 8;
}

// Attention of many tokens (attention.h).
struct Attention128 {
  enum : uint {
    threads = 256,
    rows = 128,
    dim = 256,
    panels = dim / kRowHalves,
    positions = 80,                // of a tile: the most that shared memory holds twice
    query_panel = 64 * kRowBytes,  // 64 rows of a warpgroup
    tile_panel = positions * kRowBytes,
    tile_bytes = panels * tile_panel,
    queries_bytes = 2 * panels * query_panel,
    keys_at = queries_bytes,               // two buffers
    values_at = keys_at + 2 * tile_bytes,  // two buffers
    shared_bytes = values_at + 2 * tile_bytes
  };
};

}  // namespace lily::gpu::hopper
