// The mixture of experts for many tokens at once.
#pragma once
#include "backend/gpu/kernels/args/expert_tiles.h"
#include "backend/gpu/kernels/multiply.h"

using namespace lily::gpu;

GPU_KERNEL(ExpertTiles) {
  allow_next();
  wait_for_previous();
  uint begin = a.offset[t.index], count = a.offset[t.index + 1] - begin;
  uint tiles = (count + Multiply::tokens - 1) / Multiply::tokens;
  uint first = simd_prefix_exclusive_sum(tiles);
  if (t.lane == 31) s.total[t.simd] = first + tiles;
  group_barrier();
  uint all = 0;
  for (uint i = 0; i < ExpertTiles::threads / 32; ++i) {
    if (i < t.simd) first += s.total[i];
    all += s.total[i];
  }
  for (uint i = 0; i < tiles && first + i < a.max_tiles; ++i) {
    a.tile_expert[first + i] = t.index;
    a.tile_first[first + i] = begin + i * Multiply::tokens;
  }
  for (uint i = all + t.index; i < a.max_tiles; i += ExpertTiles::threads) a.tile_expert[i] = ~0u;
}

GPU_KERNEL(ExpertTileGateUp) {
  allow_next();
  wait_for_previous();
  uint expert = a.tile_expert[t.group.y];
  if (expert == ~0u) return;  // the whole threadgroup
  uint first = a.tile_first[t.group.y], tile = t.group.x * (Multiply::tiles / 2) + t.simd;
  uint count = min(a.offset[expert + 1] - first, Multiply::tokens + 0u);
  if (t.index < Multiply::tokens) {
    uint token = t.index < count ? a.order[first + t.index] / a.picks : 0;
    s.row[t.index] = token;
    s.scale[t.index] = a.scale[token];
  }
  group_barrier();
  ulong matrix = ulong(expert) * a.tiles * blocks_of(a.inputs) * WeightBlock::bytes;
  Tile<float> c[2][4];
  multiply_rows(c, row_tile(a.gate + matrix, tile, a.tiles, a.inputs, 1),
                row_tile(a.up + matrix, tile, a.tiles, a.inputs, 1), 1, a.gate_guard, a.up_guard, a.x, s.row,
                count, a.inputs, s.x, t);
  store_gated(c, a.activations, first, tile, a.tiles, s.scale, count, 1.0f / a.gate_guard, 1.0f / a.up_guard,
              t.lane);
}

GPU_KERNEL(ExpertTileDown) {
  const uint ld = 34;  // of the results in threadgroup memory: [64 tokens][32 rows] per simdgroup
  allow_next();
  wait_for_previous();
  uint expert = a.tile_expert[t.group.y];
  if (expert == ~0u) return;  // the whole threadgroup
  uint first = a.tile_first[t.group.y], tile = t.group.x * Multiply::tiles + t.simd * 2;
  uint count = min(a.offset[expert + 1] - first, Multiply::tokens + 0u);
  if (t.index < Multiply::tokens) s.row[t.index] = first + t.index;
  group_barrier();
  in<uchar> down = a.down + ulong(expert) * a.tiles * blocks_of(a.inputs) * WeightBlock::bytes;
  Tile<float> c[2][4];
  multiply_rows(c, row_tile(down, tile, a.tiles, a.inputs, 1), row_tile(down, tile + 1, a.tiles, a.inputs, 1),
                1, a.guard, a.guard, a.x, s.row, count, a.inputs, s.x, t);
  group_barrier();
  // Rows of a tile lie across lanes, so the halves meet in threadgroup memory and leave in words.
  shared<half> own = s.x + t.simd * Multiply::tokens * ld;
  float factor = 1.0f / a.guard;
  GPU_UNROLL for (uint r = 0; r < 2; ++r) {
    GPU_UNROLL for (uint n = 0; n < 4; ++n) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        own[(n * 16 + tile_col(t.lane, i)) * ld + r * 16 + tile_row(t.lane, i)] = half(c[r][n].v[i] * factor);
      }
    }
  }
  simd_sync();
  uint word = t.lane % 16;
  for (uint token = t.lane / 16; token < count; token += 2) {
    if (tile + word / 8 < a.tiles) {
      ulong at = ulong(a.order[first + token]) * (a.tiles * 8) + tile * 8 + word;
      ((out<uint>)a.y)[at] =
          half_pack(float(own[token * ld + word * 2]), float(own[token * ld + word * 2 + 1]));
    }
  }
  if (t.group.x == 0 && t.index < count) a.y_scale[a.order[first + t.index]] = a.scale[first + t.index];
}

GPU_KERNEL(ExpertCombine) {
  allow_next();
  wait_for_previous();
  uint token = t.group.y, slot = token * a.picks;
  float factor[ExpertCombine::max_picks];
  GPU_UNROLL for (uint pick = 0; pick < ExpertCombine::max_picks; ++pick) {
    factor[pick] = 0.0f;
    if (pick < a.picks) factor[pick] = a.weight[slot + pick] * a.y_scale[slot + pick];
  }
  float gate = sigmoid(a.logits[ulong(token) * a.logits_stride + a.gate_row]);
  for (uint i = t.index * 8; i < a.hidden; i += ExpertCombine::threads * 8) {
    ulong at = ulong(token) * a.hidden + i;
    uint4 y[ExpertCombine::max_picks];
    GPU_UNROLL for (uint pick = 0; pick < ExpertCombine::max_picks; ++pick) {
      y[pick] = uint4{0, 0, 0, 0};
      if (pick < a.picks) y[pick] = load16(a.y + ulong(slot + pick) * a.hidden + i);
    }
    float4 low = load4(a.shared_y + at) * gate, high = load4(a.shared_y + at + 4) * gate;
    GPU_UNROLL for (uint pick = 0; pick < ExpertCombine::max_picks; ++pick) {
      float4 p = float4{half_lo(y[pick].x), half_hi(y[pick].x), half_lo(y[pick].y), half_hi(y[pick].y)};
      float4 q = float4{half_lo(y[pick].z), half_hi(y[pick].z), half_lo(y[pick].w), half_hi(y[pick].w)};
      low = low + p * factor[pick];
      high = high + q * factor[pick];
    }
    store4(a.residual + at, load4(a.residual + at) + low);
    store4(a.residual + at + 4, load4(a.residual + at + 4) + high);
  }
}
