// The next token of one request, chosen on the device from a row of logits by the rules of the engine's
// sampler.
//
// The order: repetition, presence and frequency penalties; bias; temperature; top-k; top-p over what top-k
// kept; min-p against the best token; one draw. Every filter keeps the best token; of equal logits the lower
// id is better. Weights exp((logit - best) / temperature) are summed as integers of 2^-42, so no order of
// additions changes a choice.
//
// Four kernels after each other, each of which returns at once where the settings do not need it:
// SampleAdjust, SampleHistogram, SampleCollect, SampleDraw. The vocabulary is cut into `slices` of `slice`
// rows, one threadgroup each.
#pragma once

#include "backend/gpu/dialect/types.h"
#include "backend/gpu/kernels/args/project.h"

namespace lily::gpu {

// A row of `history`: how often a token was answered, and what the request knows of it.
struct TokenHistory {
  enum : uint {
    count_mask = 0x00ffffff,
    banned = 1u << 29,    // never chosen
    control = 1u << 30,   // exempt from the repetition penalty
    repeated = 1u << 31,  // the repetition penalty applies
  };
};

// Lies in device memory, so that one recorded plan serves every request. top_k 0 and top_p 1 keep all; top_k
// is below the number of tokens that are not banned.
struct SampleSettings {
  ulong random_key;  // the finalizer of SplitMix64 of seed + increment
  float temperature, top_p, min_p, repetition, presence, frequency;
  uint top_k, has_bias;
};

struct SampleShape {
  enum : uint {
    max_slices = 256,
    max_rows = (1u << 18) - 1,  // of the vocabulary: sums in words of 14 bits and room hold as many weights
    buckets = 1024,             // of 1 / 16 in (best - logit) / temperature
    words = 4,                  // of a bucket: tokens, then their weight in three parts of 14 bits each
    none = 0xffffffffu,
  };
};

// Adjusts logits in place, banned ones to the lowest float, finds the best token of each slice (none: one of
// its logits is not finite) and clears the histogram. Grid: slices.
struct SampleAdjust {
  enum : uint { threads = 256 };
  out<float> logits;
  in<uint> history;
  in<float> bias;  // [rows], read only with has_bias; -100 and below: never
  in<SampleSettings> settings;
  out<float> best_logit;  // [slices]
  out<uint> best_id;      // [slices]
  out<uint> histogram;    // [1024][4]
  uint rows, slice;
  struct Shared {
    float logit[threads / 32];
    uint id[threads / 32], bad[threads / 32];
  };
};

// HeadProject that also finds the best token of each threadgroup: with SampleDraw it is all that a greedy
// token without penalties needs. Grid: groups, which are the slices.
struct HeadBest {
  enum : uint { threads = 256, max_inputs = HeadProject::max_inputs };
  in<uchar> weights;
  in<float> x, factor;
  in<uint> history;  // for banned rows
  out<float> y;      // [rows]
  out<float> best_logit;
  out<uint> best_id;
  uint inputs, planes, rows, groups;
  float eps;
  struct Shared {
    uint4 codes[max_inputs / 8];
    InputGroup groups[max_inputs / 64];
    float squares[threads / 32];
    float logit[threads / 32];
    uint id[threads / 32], bad[threads / 32];
  };
};

// Adds every token to its bucket of the histogram, or, where all tokens are kept, writes the weight of the
// slice's tokens that min-p keeps. Grid: slices.
struct SampleHistogram {
  enum : uint { threads = 256 };
  in<float> logits;
  in<SampleSettings> settings;
  in<float> best_logit;
  in<uint> best_id;
  out<atomic_uint> histogram;
  out<ulong> slice_weight;  // [slices]
  uint rows, slice, slices;
  struct Shared {
    atomic_uint words[SampleShape::buckets * SampleShape::words];
  };
};

// Lists the tokens of the buckets that top-k or top-p reaches. Grid: slices.
struct SampleCollect {
  enum : uint { threads = 256 };
  in<float> logits;
  in<SampleSettings> settings;
  in<float> best_logit;
  in<uint> best_id;
  in<uint> histogram;
  out<uint> list;   // [slices][slice]
  out<uint> count;  // [slices]
  uint rows, slice, slices;
  struct Shared {
    uint counts[32];
    ulong weights[32];
    uint last;
    atomic_uint found;
  };
};

// Draws, and moves on to the next step, whose input the token is. It is none when a logit was not finite;
// else it is counted in the history. Grid: 1.
struct SampleDraw {
  enum : uint { threads = 1024 };
  in<float> logits;
  in<SampleSettings> settings;
  in<float> best_logit;
  in<uint> best_id;
  in<uint> histogram;
  in<ulong> slice_weight;
  in<uint> list, count;
  out<uint> history;
  out<uint> drawn;  // random numbers so far
  out<uint> step;   // position and number of the next step, both one more than before, and the token
  out<uint> ids;    // [id_ring]: the token of position p at p % id_ring; the host reads them
  uint rows, slice, slices, id_ring;
  struct Shared {
    atomic_uint words[3 * 256];
    ulong sums[threads];
    ulong parts[32];
    ulong before;
    uint digit, found;
  };
};

}  // namespace lily::gpu
