// Products of many token rows with matrices of weight blocks, on matrix tiles of halves.
//
// Rows of x are halves in the order of tile_place, divided by a scale per row (args/rows.h); weights are
// dequantized in registers as they are multiplied, times `guard` (dialect/weight_tile.h). Sums are fp32.
// `inputs` is a multiple of 64, a matrix has `tiles` row tiles of 16 rows.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// A threadgroup multiplies 64 token rows with 8 row tiles, a simdgroup with two of them. Groups of 64 inputs
// of the tokens alternate between two buffers.
struct Multiply {
  enum : uint { threads = 128, tokens = 64, tiles = 8, ld = 64 + 8 };
  struct Shared {
    half x[2 * tokens * ld];
    uint row[tokens];  // of x, per token row
    float scale[tokens];
  };
};

// y = W x. Grid: (tiles / 8, tokens / 64), rounded up.
struct TileProject {
  enum : uint { threads = Multiply::threads };
  in<uchar> weights;
  in<half> x;
  in<float> scale;
  out<float> y;  // [tokens][y_stride]
  uint tokens, inputs, planes, tiles, y_stride;
  float guard;
  using Shared = Multiply::Shared;
};

// residual += W x, the same grid.
struct TileAddProject {
  enum : uint { threads = Multiply::threads };
  in<uchar> weights;
  in<half> x;
  in<float> scale;
  out<float> residual;  // [tokens][tiles * 16]
  uint tokens, inputs, planes, tiles;
  float guard;
  using Shared = Multiply::Shared;
};

// y = silu(gate x) * (up x). Grid: (tiles / 4, tokens / 64), rounded up.
struct TileGateUp {
  enum : uint { threads = Multiply::threads };
  in<uchar> gate, up;
  in<half> x;
  in<float> scale;
  out<float> y;  // [tokens][tiles * 16]
  uint tokens, inputs, tiles;
  float gate_guard, up_guard;
  using Shared = Multiply::Shared;
};

// W x for 2 to 32 tokens, where weights are what costs: a threadgroup has two row tiles, its simdgroups share
// the inputs. With `add` not 0 the product is added to y. Grid: tiles / 2, rounded up.
struct SmallProject {
  enum : uint { threads = 128, max_tokens = 32, ld = Multiply::ld };
  in<uchar> weights;
  in<half> x;
  in<float> scale;
  out<float> y;  // [tokens][y_stride]
  uint tokens, inputs, planes, tiles, y_stride, add;
  float guard;
  struct Shared {
    half x[threads / 32 * max_tokens * ld];
    float sums[threads / 32 * 16 * 33];
  };
};

}  // namespace lily::gpu
