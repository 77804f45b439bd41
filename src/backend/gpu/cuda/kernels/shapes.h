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

// Attention of one token (attention_decode.h): a warp's rows of keys and of values, `stages` times, each with
// the scales behind them if the cache has codes. Rows are `_ld` bytes apart, so that no bank is met twice.
template <uint kElementBytes, uint kWarps, uint kStages>
struct AttentionSplit {
  enum : uint {
    warps = kWarps,
    threads = warps * 32,
    stages = kStages,
    dim = 256,
    heads = 8,
    chunk = 16,
    row_bytes = dim * kElementBytes,
    key_ld = row_bytes + 64,
    value_ld = row_bytes + 16,
    scale_bytes = kElementBytes == 1 ? chunk * 16 : 0,
    key_bytes = chunk * key_ld + scale_bytes,
    value_bytes = chunk * value_ld + scale_bytes,
    stage_bytes = key_bytes + value_bytes,
    warp_bytes = stages * stage_bytes,
    ring_at = dim / 16 * 32 * 16,  // behind the queries
    states_at = ring_at + warps * warp_bytes,
    newest_at = states_at + warps * heads * 2 * 4,  // keys and values of the newest position
    newest_bytes = row_bytes + (kElementBytes == 1 ? 16 : 0),
    rotation_at = newest_at + 2 * newest_bytes,
    shared_bytes = rotation_at + 32 * 2 * 4,
    result_ld = dim + 4  // floats; a warp's sums take the place of its rows
  };
  static_assert(heads * result_ld * 4 <= warp_bytes);
};
using AttentionSplitHalves = AttentionSplit<2, 4, 2>;
using AttentionSplitCodes = AttentionSplit<1, 8, 1>;

// DeltaNet's chunks after each other (delta_hopper.cu). Rows are `_ld` bytes apart, so that no bank is met
// twice.
struct DeltaScan256 {
  enum : uint {
    threads = 256,
    dim = 128,
    values = 32,  // of a block
    chunk = 64,
    w_ld = dim * 2 + 16,
    p_ld = chunk * 2 + 16,
    u_ld = values * 4 + 16,
    q_ld = dim * 4 + 32,
    k_ld = dim * 4 + 16,
    state_ld = dim * 2 + 16,
    e_ld = values * 2 + 16,
    w_at = 0,
    p_at = w_at + chunk * w_ld,
    u_at = p_at + chunk * p_ld,
    q_at = u_at + chunk * u_ld,
    k_at = q_at + chunk * q_ld,
    decay_at = k_at + chunk * k_ld,
    buffer_bytes = decay_at + chunk * 4,  // twice
    state_at = 2 * buffer_bytes,
    e_at = state_at + values * state_ld,   // twice
    largest_at = e_at + 2 * chunk * e_ld,  // of the state and of E, by warp
    shared_bytes = largest_at + 2 * threads / 32 * 4
  };
};

}  // namespace lily::gpu::hopper
