// The gated delta rule.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// Token after token, with the state in registers: for every value head, with S [value][key],
//   S = decay * S;  e = beta * (v - S k);  S = S + e k^T;  y = S q
// Queries and keys are normalized already. Value head h reads key head h / (value_heads / key_heads).
// Grid: (128 / 4, value heads); a simdgroup per value row. `state_out` may be `state`.
struct DeltaScan {
  enum : uint { threads = 128, dim = 128, rows_per_group = 4 };
  in<float> q, k;         // [tokens][key_heads][128]
  in<float> v;            // [tokens][value_heads][128]
  in<float> decay, beta;  // [tokens][value_heads]
  in<float> state;        // [value_heads][128 value][128 key]
  out<float> y;           // [tokens][value_heads][128]
  out<float> state_out;
  uint tokens, key_heads, value_heads;
  using Shared = NoShared;
};

}  // namespace lily::gpu
