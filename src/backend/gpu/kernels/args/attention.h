// Gated attention over a cache of keys and values.
//
// All dimensions of a head are 256 and its first 64 are rotated. A token's projection row holds, per query
// head, 256 of query and 256 of gate, then the keys of all KV heads, then their values. The cache is [kv
// head][capacity][256] halves. `position` points at the position of the first token; token i of the grid is
// at position + i.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// Of a position's 32 angles.
struct AttentionRotation {
  float sine[32], cosine[32];
};

// Normalizes and rotates queries and keys; keys and values go into the cache. A simdgroup per head.
// Grid: (heads + kv_heads, tokens), the query heads first.
struct AttentionPrepare {
  enum : uint { threads = 32, dim = 256, rotated = 64 };
  in<float> projection;      // [tokens][stride]
  in<float> q_norm, k_norm;  // [256]
  in<ulong> turns;           // [32]: theta^(-j / 32) / (2 pi) as a fraction of 2^64
  in<uint> position;
  out<float> queries;  // [tokens][heads][256], divided by 16
  out<half> keys, values;
  uint heads, kv_heads, stride, k_row, v_row, capacity;
  float eps;
  using Shared = AttentionRotation;
};

// Puts the splits together, divides, and multiplies with sigmoid(gate). A threadgroup has 64 dimensions of a
// head, each added up by 16 threads, which share the splits. Grid: (heads * groups, tokens).
struct AttentionCombine {
  enum : uint { threads = 1024, dim = 256, columns = 64, groups = dim / columns, parts = threads / columns };
  in<float> partial, maximum, sums;
  in<float> projection;  // [tokens][stride]
  out<float> y;          // [tokens][heads][256]
  uint heads, splits, stride;
  struct Shared {
    float y[threads];
    float largest[parts], sums[parts];
  };
};

}  // namespace lily::gpu
