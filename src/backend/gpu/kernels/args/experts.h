// The mixture of experts for one token at a time.
//
// Slots 0 .. picks - 1 are the chosen experts, the last one is the shared expert. Whoever needs the choice
// makes it from the router's logits: that costs less than a dispatch of its own.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// What every token needs of a layer of experts, for h = x / sqrt(mean(x^2) + eps) * factor: the router's
// logits, router h, the rows padded to whole tiles; and the shared expert's activations, silu(gate h) *
// (up h). Grid: (tiles + shared_size / 16, tokens). The blocks of a router tile, and of two tiles of the
// shared expert, must fit tile_blocks.
struct RouterProject {
  enum : uint { threads = 512, max_inputs = 4096, tile_blocks = 48 };
  in<uchar> router;                  // [tiles][blocks][router_planes]
  in<uchar> shared_gate, shared_up;  // [shared_size / 16][blocks][planes]
  in<float> x, factor;
  out<float> logits;       // [tokens][tiles * 16]
  out<float> activations;  // [tokens][activation_stride]: the shared expert's, of the last slot
  uint inputs, planes, router_planes, tiles, activation_stride;
  float eps;
  struct Shared {
    uint4 codes[max_inputs / 8];
    InputGroup groups[max_inputs / 64];
    float sums[16 * (tile_blocks + 2)];
    float squares[threads / 32];
    TileBarrier barrier;
  };
};

// Logits that may be among the chosen: the largest of 32, eight times.
struct RankedLogits {
  enum : uint { simds = 8, kept = 8, count = simds * kept };
};

// activations = silu(gate h) * (up h) for the chosen experts. Row tiles of gate and up come in pairs;
// threadgroup g takes pairs g * pairs_per_group and on, at most max_pairs, each as soon as it is there.
// Grid: (pairs / pairs_per_group rounded up, tokens), pairs = picks * expert_size / 16.
// 2 * pairs_per_group * input blocks * planes must fit tile_blocks.
//
// While the choice is made memory rests; what it can fetch meanwhile are the `next_blocks` blocks at `next`,
// of the projection after this layer. 0: none.
struct ExpertGateUp {
  enum : uint {
    threads = 512,
    max_inputs = 4096,
    max_experts = 256,
    max_picks = 8,
    max_pairs = 2,
    tile_blocks = 48
  };
  in<uchar> gate, up;  // [experts][expert_size / 16][blocks][planes]
  in<uchar> next;
  in<float> x, factor;
  in<float> logits;        // [tokens][logits_stride]
  out<float> activations;  // [tokens][activation_stride]
  uint inputs, planes, experts, picks, expert_size, pairs_per_group, logits_stride, activation_stride;
  uint next_blocks, groups;  // groups: the grid's, which share them
  float eps;
  struct Shared {
    uint4 codes[max_inputs / 8];
    InputGroup groups[max_inputs / 64];
    float sums[16 * (tile_blocks + 2 * max_pairs)];
    float squares[threads / 32];
    uint order[RankedLogits::count], candidate[RankedLogits::count];
    uint expert[max_picks];
    TileBarrier barrier[max_pairs];
  };
};

// residual += sum over slots of weight * (down activations); the shared expert's weight is the sigmoid of
// logit `gate_row`. Grid: (rows / 16, tokens); every slot's inputs are padded to whole blocks. Comes right
// after ExpertGateUp with the same logits: it reads them before its wait_for_previous.
struct ExpertDown {
  enum : uint { threads = 576, max_experts = 256, max_picks = 8, max_blocks = 18, tile_blocks = 36 };
  in<uchar> down;         // [experts][rows / 16][blocks of expert_size][planes]
  in<uchar> shared_down;  // [rows / 16][blocks of shared_size][planes]
  in<float> activations;  // [tokens][picks * expert_size + shared_size]
  in<float> logits;       // [tokens][logits_stride]
  out<float> residual;    // [tokens][rows]
  uint rows, planes, experts, picks, expert_size, shared_size, gate_row, logits_stride;
  struct Shared {
    uint4 codes[max_blocks * 32];
    InputGroup groups[max_blocks * 4];
    float sums[16 * (tile_blocks + 1)];
    uint expert[max_picks];
    float weight[max_picks + 1];
    TileBarrier barrier;
  };
};

}  // namespace lily::gpu
