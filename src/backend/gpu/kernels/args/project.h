// Products of token rows with matrices of weight blocks (dialect/weights.h).
//
// The grid is (groups, tokens). With prefetching kernels each threadgroup computes `each` = tiles / groups
// row tiles, the first tiles % groups of them one more, which must be at most max_tiles and fit tile_blocks;
// the input blocks are split over the simdgroups. `inputs` is a multiple of 64 and at most max_inputs; there
// are one or two planes.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// y = W (x / sqrt(mean(x^2) + eps) * factor), the rows padded to whole tiles.
struct NormProject {
  enum : uint { threads = 512, max_inputs = 4096, max_tiles = 6, tile_blocks = 48 };
  in<uchar> weights;
  in<float> x;       // [tokens][inputs]
  in<float> factor;  // [inputs]
  out<float> y;      // [tokens][y_stride]
  uint inputs, planes, tiles, groups, each, y_stride;
  float eps;
  struct Shared {
    uint4 codes[max_inputs / 8];
    InputGroup groups[max_inputs / 64];
    float sums[16 * (tile_blocks + max_tiles)];
    float squares[threads / 32];
    TileBarrier barrier;
  };
};

// The same for many rows: a simdgroup takes a tile after the other and reads its blocks where they are.
// Writes `rows` values a token.
struct HeadProject {
  enum : uint { threads = 256, max_inputs = 4096 };
  in<uchar> weights;
  in<float> x, factor;
  out<float> y;  // [tokens][rows]
  uint inputs, planes, rows, groups;
  float eps;
  struct Shared {
    uint4 codes[max_inputs / 8];
    InputGroup groups[max_inputs / 64];
    float squares[threads / 32];
  };
};

// residual += W x.
struct AddProject {
  enum : uint { threads = 512, max_inputs = 4096, max_tiles = 3, tile_blocks = 48 };
  in<uchar> weights;
  in<float> x;          // [tokens][inputs]
  out<float> residual;  // [tokens][rows]
  uint inputs, planes, tiles, groups, each, rows;
  struct Shared {
    uint4 codes[max_inputs / 8];
    InputGroup groups[max_inputs / 64];
    float sums[16 * (tile_blocks + max_tiles)];
    TileBarrier barrier;
  };
};

// residual += W v, where v is, per head of 128, o / sqrt(mean(o^2) + eps) * weight * silu(z). Comes right
// after DeltaStep: it reads z before its wait_for_previous.
struct AddGatedProject {
  enum : uint { threads = 512, head = 128, max_inputs = 4096, max_tiles = 3, tile_blocks = 48 };
  in<uchar> weights;
  in<float> o;          // [tokens][inputs]
  in<float> z;          // [tokens][z_stride], `inputs` of them
  in<float> norm;       // [128]
  out<float> residual;  // [tokens][rows]
  uint inputs, planes, tiles, groups, each, rows, z_stride;
  float eps;
  struct Shared {
    uint4 codes[max_inputs / 8];
    InputGroup groups[max_inputs / 64];
    float sums[16 * (tile_blocks + max_tiles)];
    TileBarrier barrier;
  };
};

}  // namespace lily::gpu
