// Gated DeltaNet: convolution, gates and the delta rule.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// Which of a ring of states a step reads and writes: the step counter's place in it and the next one. A step
// that ran too far is undone by setting the counter back; a ring of n keeps n - 1 steps.
//
// Convolution rows of the latest positions lie in a ring of their own, that of position p at p % window_rows.
struct DeltaRing {
  enum : uint { window_rows = 8, taps = 4 };
};

// One token: u = silu(convolution of the last 4 rows), q and k normalized, then, with S [value][key],
//   S = decay * S;  e = beta * (v - S k);  S = S + e k^T;  y = S q
// The projection row holds queries, keys and values (`channels` of them: the convolution's input) and, from
// b_row and a_row on, the inputs of beta and decay. Value head h reads key head h / (value_heads /
// key_heads). The row also goes into the window. State, window and counters are read before
// wait_for_previous: only earlier plans write them. Grid: (4, value heads); a threadgroup has 32 value rows
// of a head, a simdgroup 4.
//
// While it waits memory rests; what it can fetch meanwhile are the `next_blocks` blocks at `next`, of the
// projection after it (decode 924 -> 927 tok/s on an H200). 0: none.
struct DeltaStep {
  enum : uint { threads = 256, dim = 128, parts = 4, rows_per_simd = 4 };
  in<float> projection;   // [channels and more]
  in<float> convolution;  // [4][channels], oldest tap first
  in<float> rate;         // [value_heads]: -exp(A_log)
  in<float> dt_bias;      // [value_heads]
  in<uint> position;      // of the token
  in<uint> step;          // counts calls
  out<float> window;      // [8][channels]
  out<float> states;      // [ring][value_heads][128 value][128 key]
  out<float> y;           // [value_heads][128]
  in<uchar> next;
  uint key_heads, value_heads, b_row, a_row, ring, next_blocks;
  struct Shared {
    float q[dim], k[dim], v[dim / parts];
    float squares[threads / 32];
  };
};

// Keeps the rows of the last tokens (at most 3) in the window. Grid: channels / 256, rounded up.
struct DeltaWindow {
  enum : uint { threads = 256 };
  in<float> projection;  // [tokens][stride]
  in<uint> position;     // of the first token
  out<float> window;
  uint tokens, channels, stride;
  using Shared = NoShared;
};

}  // namespace lily::gpu
