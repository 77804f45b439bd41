// Causal attention of many tokens on Hopper's matrix unit, under the contract of AttentionPrefill.
//
// A block has two warpgroups of 64 rows each; row r is token r / group and query head r % group of the KV
// head, so that all query heads of a KV head share its keys and values, and the causal edge crosses few rows.
// Queries stay in shared memory, sums (64 x 256 floats a warpgroup) in registers. Of a tile of positions,
// scores come from shared memory, their exponentials become the left operand of the values where they are.
// Tiles of keys and of values are in two buffers each: the next ones are on their way while one is
// multiplied.
#pragma once

#include "backend/gpu/cuda/kernels/shapes.h"
#include "backend/gpu/cuda/kernels/wgmma.h"
#include "backend/gpu/dialect/math.h"
#include "backend/gpu/dialect/overlap.h"
#include "backend/gpu/kernels/args/attention_tiles.h"

namespace lily::gpu::hopper {

GPU_FN float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Rows of a KV head from `first` on, `count` of them real, as a tile; zeros beyond.
GPU_FN void fetch_tile(uint to, const half* rows, uint first, uint count) {
  GPU_UNROLL for (uint i = 0; i < Attention128::positions / 8; ++i) {
    uint row = i * 8 + threadIdx.x / 32, chunk = threadIdx.x % 32;
    bool real = row < count;
    copy_chunk(to + chunk / 8 * Attention128::tile_panel + swizzled(row, chunk % 8),
               rows + ulong(first + (real ? row : 0)) * Attention128::dim + chunk * 8, true, real);
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

// The block's rows of one KV head; pointers are at the KV head's first query head.
GPU_FN void attend(const float* queries, const half* keys, const half* values, const float* gates, float* y,
                   uint first_row, uint tokens, uint heads, uint group, uint stride, uint position) {
  constexpr uint kPositions = Attention128::positions, kDim = Attention128::dim, kSteps = kPositions / 16;
  const uint lane = threadIdx.x & 31, warpgroup = threadIdx.x / 128, memory = shared_address(hopper_memory);
  const uint row_count = tokens * group;
  const uint own = first_row + warpgroup * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;  // and own + 8
  const uint end = position + (min(first_row + Attention128::rows, row_count) - 1) / group + 1;
  // Positions that all rows of the block see.
  const uint common = position + first_row / group + 1;
  RowState rows;
  GPU_UNROLL for (uint h = 0; h < 2; ++h) {
    rows.largest[h] = -1e30f;
    rows.sum[h] = 0.0f;
    rows.end[h] = position + min(own + h * 8, row_count - 1) / group + 1;
  }
  fetch_tile(memory + Attention128::keys_at, keys, 0, end);
  fetch_tile(memory + Attention128::values_at, values, 0, end);
  commit_copies();
  put_queries(queries, first_row, row_count, heads, group);

  float sums[kDim / 2];
  GPU_UNROLL for (uint i = 0; i < kDim / 2; ++i) sums[i] = 0.0f;
  const uint query = memory + warpgroup * Attention128::panels * Attention128::query_panel;
  uint buffer = 0;
  for (uint first = 0; first < end; first += kPositions, buffer ^= 1) {
    const uint key = memory + Attention128::keys_at + buffer * Attention128::tile_bytes;
    const uint value = memory + Attention128::values_at + buffer * Attention128::tile_bytes;
    wait_copies<0>();
    publish_writes();
    __syncthreads();
    if (first + kPositions < end) {
      const uint other = (buffer ^ 1) * Attention128::tile_bytes, left = end - first - kPositions;
      fetch_tile(memory + Attention128::keys_at + other, keys, first + kPositions, left);
      fetch_tile(memory + Attention128::values_at + other, values, first + kPositions, left);
      commit_copies();
    }

    float s[kPositions / 2];
    begin_products();
    GPU_UNROLL for (uint i = 0; i < kDim / 16; ++i) {
      Product<kPositions>::set(s, outer_rows(query + i / 4 * Attention128::query_panel) + i % 4 * 2,
                               outer_rows(key + i / 4 * Attention128::tile_panel) + i % 4 * 2, i != 0);
    }
    commit_products();
    wait_products<0>();
    float scale[2];
    if (first + kPositions > common) {
      soften<true>(s, rows, scale, first, lane);
    } else {
      soften<false>(s, rows, scale, first, lane);
    }
    if (__any_sync(~0u, scale[0] != 1.0f || scale[1] != 1.0f)) {
      GPU_UNROLL for (uint i = 0; i < kDim / 2; ++i) sums[i] *= scale[i >> 1 & 1];
    }
    uint weights[kSteps][4];
    GPU_UNROLL for (uint i = 0; i < kSteps; ++i) {
      GPU_UNROLL for (uint j = 0; j < 4; ++j) weights[i][j] =
          half_pack(s[i * 8 + j * 2], s[i * 8 + j * 2 + 1]);
    }
    begin_products();
    GPU_UNROLL for (uint i = 0; i < kSteps; ++i) {
      Product<kDim>::add_inner(sums, weights[i],
                               inner_rows(value + i * 16 * kRowBytes, Attention128::tile_panel));
    }
    commit_products();
    wait_products<0>();
  }

  GPU_UNROLL for (uint h = 0; h < 2; ++h) {
    float sum = rows.sum[h];
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
        *reinterpret_cast<float2*>(to + n * 8) = float2{sums[n * 4 + h * 2] * inverse * sigmoid(g.x),
                                                        sums[n * 4 + h * 2 + 1] * inverse * sigmoid(g.y)};
      }
    }
  }
}

}  // namespace lily::gpu::hopper
