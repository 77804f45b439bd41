// Causal attention of many tokens on Hopper's matrix unit, under the contract of AttentionPrefill.
//
// A block has two warpgroups of 64 rows each; row r is token r / group and query head r % group of the KV
// head, so that all query heads of a KV head share its keys and values, and the causal edge crosses few rows.
// Queries stay in shared memory, sums (64 x 256 floats a warpgroup) in registers. Of a tile of positions,
// scores come from shared memory, their exponentials become the left operand of the values where they are.
// While a tile's scores become weights, the matrix unit multiplies the weights and values of the tile before
// it; keys and values of the next tile are on their way into the other buffer.
#pragma once

#include "backend/gpu/cuda/kernels/fragments.h"
#include "backend/gpu/cuda/kernels/shapes.h"
#include "backend/gpu/cuda/kernels/wgmma.h"
#include "backend/gpu/dialect/math.h"
#include "backend/gpu/dialect/overlap.h"
#include "backend/gpu/kernels/args/attention_tiles.h"

namespace lily::gpu::hopper {

// Positions `first` on of a KV head's rows, zeros from `end` on, as a tile; nothing if it begins there.
GPU_FN void fetch_tile(uint to, const half* rows, uint first, uint end) {
  GPU_UNROLL for (uint i = 0; i < Attention128::positions / 8; ++i) {
    uint row = i * 8 + threadIdx.x / 32, chunk = threadIdx.x % 32;
    bool real = first + row < end;
    copy_chunk(to + chunk / 8 * Attention128::tile_panel + swizzled(row, chunk % 8),
               rows + ulong(real ? first + row : 0) * Attention128::dim + chunk * 8, first < end, real);
  }
}

// Queries of the block's rows as halves; zeros beyond the last row.
GPU_FN void put_queries(const float* queries, uint first_row, uint row_count, uint heads, uint group) {
  for (uint i = threadIdx.x; i < Attention128::rows * Attention128::dim / 8; i += Attention128::threads) {
    uint row = i / 32, chunk = i % 32, r = first_row + row;
    uint4 v = uint4{0, 0, 0, 0};
    if (r < row_count) {
      const float* from = queries + (ulong(r / group) * heads + r % group) * Attention128::dim + chunk * 8;
      float4 p = load4(from), q = load4(from + 4);
      v = uint4{half_pack(p.x, p.y), half_pack(p.z, p.w), half_pack(q.x, q.y), half_pack(q.z, q.w)};
    }
    store16(hopper_memory + (row / 64 * Attention128::panels + chunk / 8) * Attention128::query_panel +
                swizzled(row % 64, chunk % 8),
            v);
  }
}

// What a lane knows of its two rows, 8 apart.
struct RowState {
  float largest[2], sum[2];
  uint end[2];  // positions that the row sees
};

// Scores to weights exp(score - largest), in place; `scale` is what earlier sums are worth now. Lanes of a
// quad share a row and see its largest; their sums stay apart until the end.
template <bool kMasked>
GPU_FN void soften(float (&s)[Attention128::positions / 2], RowState& rows, float (&scale)[2], uint first,
                   uint lane) {
  constexpr float kLog2E = 1.4426950408889634f;
  float top[2] = {rows.largest[0], rows.largest[1]};
  GPU_UNROLL for (uint i = 0; i < Attention128::positions / 2; ++i) {
    if (kMasked && first + accumulator_column(lane, i) >= rows.end[i >> 1 & 1]) s[i] = -1e30f;
    top[i >> 1 & 1] = fmaxf(top[i >> 1 & 1], s[i]);
  }
  GPU_UNROLL for (uint h = 0; h < 2; ++h) {
    top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
    top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
    scale[h] = exp2_of((rows.largest[h] - top[h]) * kLog2E);
    rows.largest[h] = top[h];
    rows.sum[h] *= scale[h];
  }
  float base[2] = {top[0] * kLog2E, top[1] * kLog2E};
  GPU_UNROLL for (uint i = 0; i < Attention128::positions / 2; ++i) {
    s[i] = exp2_of(s[i] * kLog2E - base[i >> 1 & 1]);
    rows.sum[i >> 1 & 1] += s[i];
  }
}

// A warpgroup's way through the positions. Tile t has its keys and its values in buffers t % 2.
struct Attending {
  enum : uint { positions = Attention128::positions, steps = positions / 16, dim = Attention128::dim };
  const half *keys, *values;
  uint end;  // positions that the block sees
  uint memory, query, lane;
  RowState rows;
  float sums[dim / 2];
  uint weights[steps][4];

  __device__ __forceinline__ uint key_tile(uint tile) const {
    return memory + Attention128::keys_at + (tile & 1) * Attention128::tile_bytes;
  }
  __device__ __forceinline__ uint value_tile(uint tile) const {
    return memory + Attention128::values_at + (tile & 1) * Attention128::tile_bytes;
  }
  // What the step before asked for is there, and nobody reads what this one will overwrite.
  __device__ __forceinline__ void next_tiles(uint tile) const {
    wait_copies<0>();
    publish_writes();
    __syncthreads();
    fetch_tile(key_tile(tile + 1), keys, (tile + 1) * positions, end);
    fetch_tile(value_tile(tile), values, tile * positions, end);
    commit_copies();
  }
  __device__ __forceinline__ void multiply_keys(float (&s)[positions / 2], uint tile) const {
    GPU_UNROLL for (uint i = 0; i < dim / 16; ++i) {
      Product<positions>::set(s, outer_rows(query + i / 4 * Attention128::query_panel) + i % 4 * 2,
                              outer_rows(key_tile(tile) + i / 4 * Attention128::tile_panel) + i % 4 * 2,
                              i != 0);
    }
    commit_products();
  }
  __device__ __forceinline__ void multiply_values(uint tile) {
    GPU_UNROLL for (uint i = 0; i < steps; ++i) {
      Product<dim>::add_inner(sums, weights[i],
                              inner_rows(value_tile(tile) + i * 16 * kRowBytes, Attention128::tile_panel));
    }
    commit_products();
  }
  __device__ __forceinline__ void pack_weights(const float (&s)[positions / 2]) {
    GPU_UNROLL for (uint i = 0; i < steps; ++i) {
      GPU_UNROLL for (uint j = 0; j < 4; ++j) weights[i][j] =
          half_pack(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1]);
    }
  }

  template <bool kMasked>
  __device__ __forceinline__ void first_tile() {
    float s[positions / 2], scale[2];
    next_tiles(0);
    begin_products();
    multiply_keys(s, 0);
    wait_products<0>();
    soften<kMasked>(s, rows, scale, 0, lane);
    pack_weights(s);
  }
  template <bool kMasked>
  __device__ __forceinline__ void tile(uint t) {
    float s[positions / 2], scale[2];
    next_tiles(t);
    begin_products();
    multiply_keys(s, t);
    multiply_values(t - 1);
    wait_products<1>();
    soften<kMasked>(s, rows, scale, t * positions, lane);
    wait_products<0>();
    if (__any_sync(~0u, scale[0] != 1.0f || scale[1] != 1.0f)) {
      GPU_UNROLL for (uint i = 0; i < dim / 2; ++i) sums[i] *= scale[i >> 1 & 1];
    }
    pack_weights(s);
  }
};

// The block's rows of one KV head; pointers are at the KV head's first query head.
GPU_FN void attend(const float* queries, const half* keys, const half* values, const float* gates, float* y,
                   uint first_row, uint tokens, uint heads, uint group, uint stride, uint position) {
  constexpr uint kPositions = Attention128::positions, kDim = Attention128::dim;
  const uint lane = threadIdx.x & 31, warpgroup = threadIdx.x / 128, memory = shared_address(hopper_memory);
  const uint row_count = tokens * group;
  const uint own = first_row + warpgroup * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;  // and own + 8
  const uint end = position + (min(first_row + Attention128::rows, row_count) - 1) / group + 1;
  const uint tiles = (end + kPositions - 1) / kPositions;
  // Tiles of which all rows of the block see all positions.
  const uint open = (position + first_row / group + 1) / kPositions;
  Attending a;
  a.keys = keys;
  a.values = values;
  a.end = end;
  a.memory = memory;
  a.query = memory + warpgroup * Attention128::panels * Attention128::query_panel;
  a.lane = lane;
  GPU_UNROLL for (uint h = 0; h < 2; ++h) {
    a.rows.largest[h] = -1e30f;
    a.rows.sum[h] = 0.0f;
    a.rows.end[h] = position + min(own + h * 8, row_count - 1) / group + 1;
  }
  GPU_UNROLL for (uint i = 0; i < kDim / 2; ++i) a.sums[i] = 0.0f;
  fetch_tile(a.key_tile(0), keys, 0, end);
  commit_copies();
  put_queries(queries, first_row, row_count, heads, group);
  if (open > 0) {
    a.first_tile<false>();
  } else {
    a.first_tile<true>();
  }
  uint tile = 1;
  for (; tile < open; ++tile) a.tile<false>(tile);
  for (; tile < tiles; ++tile) a.tile<true>(tile);
  wait_copies<0>();
  publish_writes();
  __syncthreads();
  begin_products();
  a.multiply_values(tiles - 1);
  wait_products<0>();

  GPU_UNROLL for (uint h = 0; h < 2; ++h) {
    float sum = a.rows.sum[h];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    const uint r = own + h * 8;
    if (r < row_count) {
      const float inverse = 1.0f / sum;
      const uint token = r / group, head = r % group, column = lane % 4 * 2;
      const float* gate = gates + ulong(token) * stride + head * 2 * kDim + kDim + column;
      float* to = y + (ulong(token) * heads + head) * kDim + column;
      GPU_UNROLL for (uint n = 0; n < kDim / 8; ++n) {
        float2 g = *reinterpret_cast<const float2*>(gate + n * 8);
        *reinterpret_cast<float2*>(to + n * 8) = float2{a.sums[n * 4 + h * 2] * inverse * sigmoid(g.x),
                                                        a.sums[n * 4 + h * 2 + 1] * inverse * sigmoid(g.y)};
      }
    }
  }
}

}  // namespace lily::gpu::hopper
