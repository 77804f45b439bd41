// Rows as halves for the matrix tiles: every row divided by a power of two, so that none overflows or
// vanishes.
//
// y [tokens][inputs] has the order of tile_place within each group of 64; scale [tokens] is the power of two
// that brings the row's largest magnitude to 1 .. 2. `inputs` is a multiple of 64.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// y * scale = x / sqrt(mean(x^2) + eps) * factor. Grid: (1, tokens).
struct NormRows {
  enum : uint { threads = 256, max_inputs = 4096 };
  in<float> x, factor;
  out<half> y;
  out<float> scale;
  uint inputs;
  float eps;
  struct Shared {
    float squares[threads / 32], largest[threads / 32];
  };
};

// y * scale = o / sqrt(mean(o^2) + eps) * norm * silu(z), the mean per head of 128. Grid: (1, tokens).
struct GatedNormRows {
  enum : uint { threads = 256, head = 128, max_inputs = 4096 };
  in<float> o;     // [tokens][inputs]
  in<float> z;     // [tokens][z_stride]
  in<float> norm;  // [128]
  out<half> y;
  out<float> scale;
  uint inputs, z_stride;
  float eps;
  struct Shared {
    float largest[threads / 32];
  };
};

// y * scale = x. A simdgroup per row. Grid: rows / 4, rounded up.
struct HalfRows {
  enum : uint { threads = 128 };
  in<float> x;
  out<half> y;
  out<float> scale;
  uint rows, inputs;
  using Shared = NoShared;
};

}  // namespace lily::gpu
