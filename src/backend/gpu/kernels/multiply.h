// Products of many token rows with matrices of weight blocks.
#pragma once
#include "backend/gpu/dialect/weight_tile.h"
#include "backend/gpu/kernels/args/multiply.h"
#include "backend/gpu/kernels/products.h"

using namespace lily::gpu;

namespace lily::gpu {

// A thread's share of 64 token rows x 64 inputs on their way into threadgroup memory.
struct TokenShare {
  uint4 v[4];
};
GPU_FN void fetch_tokens(ref<TokenShare> share, in<half> x, shared<uint> rows, uint count, uint inputs,
                         uint step, uint index) {
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    uint at = i * Multiply::threads + index;
    share.v[i] = uint4{0, 0, 0, 0};
    if (at / 8 < count) share.v[i] = load16(x + ulong(rows[at / 8]) * inputs + step * 64 + at % 8 * 8);
  }
}
GPU_FN void put_tokens(cref<TokenShare> share, shared<half> x, uint index) {
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    uint at = i * Multiply::threads + index;
    store16(x + at / 8 * Multiply::ld + at % 8 * 8, share.v[i]);
  }
}

// The share of row tile `tile` (its first block at `tile`) in group `step` of plane `plane`.
GPU_FN WeightShare fetch_step(in<uchar> tile, uint step, uint plane, uint planes, uint lane) {
  return fetch_weights(tile + ulong(step / 4 * planes + plane) * WeightBlock::bytes, step % 4, lane);
}

// c [first or second row tile][16 tokens each] += the two row tiles times rows[0 .. count) of x. All threads
// of the threadgroup; rows are in threadgroup memory and a barrier has passed since they were written.
GPU_FN void multiply_rows(ref<Tile<float>[2][4]> c, in<uchar> first, in<uchar> second, uint planes,
                          float first_guard, float second_guard, in<half> x, shared<uint> rows, uint count,
                          uint inputs, shared<half> buffers, Thread t) {
  const uint buffer = Multiply::tokens * Multiply::ld;
  GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 4; ++n) tile_zero(c[r][n]);
  TokenShare next;
  fetch_tokens(next, x, rows, count, inputs, 0, t.index);
  WeightShare w0 = fetch_step(first, 0, 0, planes, t.lane), w1 = fetch_step(second, 0, 0, planes, t.lane);
  uint steps = inputs / 64;
  for (uint step = 0; step < steps; ++step) {
    shared<half> tokens = buffers + (step & 1) * buffer;
    put_tokens(next, tokens, t.index);
    if (step + 1 < steps) fetch_tokens(next, x, rows, count, inputs, step + 1, t.index);
    group_barrier();  // the other buffer is written only after the next one
    for (uint plane = 0; plane < planes; ++plane) {
      Tile<half> tiles[2][4];
      weight_tiles(tiles[0], w0, first_guard, t.lane);
      weight_tiles(tiles[1], w1, second_guard, t.lane);
      uint next_plane = plane + 1 < planes ? plane + 1 : 0, next_step = next_plane > 0 ? step : step + 1;
      if (next_step < steps) {
        w0 = fetch_step(first, next_step, next_plane, planes, t.lane);
        w1 = fetch_step(second, next_step, next_plane, planes, t.lane);
      }
      GPU_UNROLL for (uint j = 0; j < 4; ++j) {
        GPU_UNROLL for (uint n = 0; n < 4; n += 2) {
          if (n * 16 < count) {
            Tile<half> x0, x1;
            tile_load_right(x0, tokens + n * 16 * Multiply::ld + j * 16, Multiply::ld, t.lane);
            tile_load_right(x1, tokens + (n + 1) * 16 * Multiply::ld + j * 16, Multiply::ld, t.lane);
            tile_mma(c[0][n], c[0][n + 1], tiles[0][j], x0, x1);
            tile_mma(c[1][n], c[1][n + 1], tiles[1][j], x0, x1);
          }
        }
      }
    }
  }
}

// Which rows of x a threadgroup of a dense product has: 64 from `first` on, as they lie.
GPU_FN uint dense_rows(in<float> scale, uint first, uint tokens, shared<uint> rows, shared<float> scales,
                       uint index) {
  uint count = min(tokens - first, Multiply::tokens + 0u);
  if (index < Multiply::tokens) {
    rows[index] = first + index;
    scales[index] = index < count ? scale[first + index] : 0.0f;
  }
  group_barrier();
  return count;
}

// y [row of x][stride] = c, or += c, for two neighbouring row tiles from `tile` on.
template <bool kAdd>
GPU_FN void store_product(cref<Tile<float>[2][4]> c, out<float> y, uint stride, uint tile, uint tiles,
                          shared<uint> rows, shared<float> scales, uint count, float factor, uint lane) {
  GPU_UNROLL for (uint r = 0; r < 2; ++r) {
    GPU_UNROLL for (uint n = 0; n < 4; ++n) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        uint token = n * 16 + tile_col(lane, i);
        if (token < count && tile + r < tiles) {
          ulong at = ulong(rows[token]) * stride + (tile + r) * 16 + tile_row(lane, i);
          float value = c[r][n].v[i] * (scales[token] * factor);
          y[at] = kAdd ? y[at] + value : value;
        }
      }
    }
  }
}

// The blocks of a row tile; of the last one for tiles that do not exist.
GPU_FN in<uchar> row_tile(in<uchar> weights, uint tile, uint tiles, uint inputs, uint planes) {
  return weights + ulong(min(tile, tiles - 1)) * (blocks_of(inputs) * planes) * WeightBlock::bytes;
}

}  // namespace lily::gpu

GPU_KERNEL(TileProject) {
  allow_next();
  wait_for_previous();
  uint tile = t.group.x * Multiply::tiles + t.simd * 2, first = t.group.y * Multiply::tokens;
  uint count = dense_rows(a.scale, first, a.tokens, s.row, s.scale, t.index);
  Tile<float> c[2][4];
  multiply_rows(c, row_tile(a.weights, tile, a.tiles, a.inputs, a.planes),
                row_tile(a.weights, tile + 1, a.tiles, a.inputs, a.planes), a.planes, a.guard, a.guard, a.x,
                s.row, count, a.inputs, s.x, t);
  store_product<false>(c, a.y, a.y_stride, tile, a.tiles, s.row, s.scale, count, 1.0f / a.guard, t.lane);
}

GPU_KERNEL(TileAddProject) {
  allow_next();
  wait_for_previous();
  uint tile = t.group.x * Multiply::tiles + t.simd * 2, first = t.group.y * Multiply::tokens;
  uint count = dense_rows(a.scale, first, a.tokens, s.row, s.scale, t.index);
  Tile<float> c[2][4];
  multiply_rows(c, row_tile(a.weights, tile, a.tiles, a.inputs, a.planes),
                row_tile(a.weights, tile + 1, a.tiles, a.inputs, a.planes), a.planes, a.guard, a.guard, a.x,
                s.row, count, a.inputs, s.x, t);
  store_product<true>(c, a.residual, a.tiles * 16, tile, a.tiles, s.row, s.scale, count, 1.0f / a.guard,
                      t.lane);
}

namespace lily::gpu {

// y [output row][tiles * 16] = silu(c[0]) * c[1] of one row tile of gate and of up.
GPU_FN void store_gated(cref<Tile<float>[2][4]> c, out<float> y, uint first_output, uint tile, uint tiles,
                        shared<float> scales, uint count, float gate_factor, float up_factor, uint lane) {
  if (tile >= tiles) return;
  GPU_UNROLL for (uint n = 0; n < 4; ++n) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      uint token = n * 16 + tile_col(lane, i);
      if (token < count) {
        float gate = c[0][n].v[i] * (scales[token] * gate_factor);
        float up = c[1][n].v[i] * (scales[token] * up_factor);
        y[ulong(first_output + token) * (tiles * 16) + tile * 16 + tile_row(lane, i)] = silu(gate) * up;
      }
    }
  }
}

}  // namespace lily::gpu

GPU_KERNEL(TileGateUp) {
  allow_next();
  wait_for_previous();
  uint tile = t.group.x * (Multiply::tiles / 2) + t.simd, first = t.group.y * Multiply::tokens;
  uint count = dense_rows(a.scale, first, a.tokens, s.row, s.scale, t.index);
  Tile<float> c[2][4];
  multiply_rows(c, row_tile(a.gate, tile, a.tiles, a.inputs, 1), row_tile(a.up, tile, a.tiles, a.inputs, 1),
                1, a.gate_guard, a.up_guard, a.x, s.row, count, a.inputs, s.x, t);
  store_gated(c, a.y, first, tile, a.tiles, s.scale, count, 1.0f / a.gate_guard, 1.0f / a.up_guard, t.lane);
}

GPU_KERNEL(SmallProject) {
  const uint simds = SmallProject::threads / 32, ld = SmallProject::ld, sums_ld = 33;
  allow_next();
  wait_for_previous();
  uint tile = t.group.x * 2, steps = a.inputs / 64;
  in<uchar> first = row_tile(a.weights, tile, a.tiles, a.inputs, a.planes);
  in<uchar> second = row_tile(a.weights, tile + 1, a.tiles, a.inputs, a.planes);
  shared<half> tokens = s.x + t.simd * SmallProject::max_tokens * ld;
  Tile<float> c[2][2];
  GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 2; ++n) tile_zero(c[r][n]);
  for (uint step = t.simd; step < steps; step += simds) {
    simd_sync();
    for (uint at = t.lane; at < SmallProject::max_tokens * 8; at += 32) {
      uint4 v = uint4{0, 0, 0, 0};
      if (at / 8 < a.tokens) v = load16(a.x + ulong(at / 8) * a.inputs + step * 64 + at % 8 * 8);
      store16(tokens + at / 8 * ld + at % 8 * 8, v);
    }
    simd_sync();
    for (uint plane = 0; plane < a.planes; ++plane) {
      Tile<half> w0[4], w1[4];
      weight_tiles(w0, fetch_step(first, step, plane, a.planes, t.lane), a.guard, t.lane);
      weight_tiles(w1, fetch_step(second, step, plane, a.planes, t.lane), a.guard, t.lane);
      GPU_UNROLL for (uint j = 0; j < 4; ++j) {
        Tile<half> x0, x1;
        tile_load_right(x0, tokens + j * 16, ld, t.lane);
        tile_load_right(x1, tokens + 16 * ld + j * 16, ld, t.lane);
        tile_mma(c[0][0], c[0][1], w0[j], x0, x1);
        tile_mma(c[1][0], c[1][1], w1[j], x0, x1);
      }
    }
  }
  GPU_UNROLL for (uint r = 0; r < 2; ++r) {
    group_barrier();
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      uint place = (t.simd * 16 + tile_row(t.lane, i)) * sums_ld + tile_col(t.lane, i);
      s.sums[place] = c[r][0].v[i];
      s.sums[place + 16] = c[r][1].v[i];
    }
    group_barrier();
    if (tile + r < a.tiles) {
      for (uint at = t.index; at < a.tokens * 16; at += SmallProject::threads) {
        uint token = at / 16, row = at % 16;
        float sum = 0.0f;
        for (uint i = 0; i < simds; ++i) sum += s.sums[(i * 16 + row) * sums_ld + token];
        sum *= a.scale[token] * (1.0f / a.guard);
        ulong to = ulong(token) * a.y_stride + (tile + r) * 16 + row;
        a.y[to] = a.add != 0 ? a.y[to] + sum : sum;
      }
    }
  }
}
