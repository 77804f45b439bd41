// The mixture of experts for many tokens at once: assignments sorted by expert, one product per expert.
//
// An assignment is a token and one of its picks, numbered token * picks + pick. Routing (args/routing.h)
// gives `order`, the assignments sorted by expert, and `offset`, where each expert's begin in it. Position i
// of the order is row i of the activations. ExpertTiles cuts the order into tiles of at most 64 positions of
// one expert; its grid's other tiles have the expert 2^32 - 1 and no work.
#pragma once

#include "backend/gpu/dialect/types.h"
#include "backend/gpu/kernels/args/multiply.h"

namespace lily::gpu {

// Grid: 1. `max_tiles` is at least experts + assignments / 64.
struct ExpertTiles {
  enum : uint { threads = 256, max_experts = 256 };
  in<uint> offset;        // [257]
  out<uint> tile_expert;  // [max_tiles]
  out<uint> tile_first;   // [max_tiles]: positions in the order
  uint max_tiles;
  struct Shared {
    uint total[threads / 32];
  };
};

// activations = silu(gate x) * (up x), x of the assignments' tokens. Grid: (tiles / 4 rounded up, max_tiles).
struct ExpertTileGateUp {
  enum : uint { threads = Multiply::threads };
  in<uchar> gate, up;  // [experts][tiles][blocks]
  in<half> x;          // [tokens][inputs]
  in<float> scale;     // [tokens]
  in<uint> order, offset, tile_expert, tile_first;
  out<float> activations;  // [assignments][tiles * 16], in order
  uint inputs, tiles, picks;
  float gate_guard, up_guard;
  using Shared = Multiply::Shared;
};

// y * y_scale = down (x * scale). x was brought near 1 by its scale, so a half holds y. Grid: (tiles / 8
// rounded up, max_tiles).
struct ExpertTileDown {
  enum : uint { threads = Multiply::threads };
  in<uchar> down;  // [experts][tiles][blocks]
  in<half> x;      // activations [assignments][inputs], in order
  in<float> scale;
  in<uint> order, offset, tile_expert, tile_first;
  out<half> y;         // [assignments][tiles * 16], by assignment
  out<float> y_scale;  // [assignments]
  uint inputs, tiles;
  float guard;
  using Shared = Multiply::Shared;
};

// residual += sum over picks of weight * y_scale * y + sigmoid(logit `gate_row`) * shared. Grid: (1, tokens).
struct ExpertCombine {
  enum : uint { threads = 256, max_picks = 8 };
  in<half> y;          // [assignments][hidden]
  in<float> y_scale;   // [assignments]
  in<float> weight;    // [assignments]
  in<float> logits;    // [tokens][logits_stride]
  in<float> shared_y;  // [tokens][hidden]
  out<float> residual;
  uint hidden, gate_row, picks, logits_stride;
  using Shared = NoShared;
};

}  // namespace lily::gpu
