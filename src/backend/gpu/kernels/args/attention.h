// Gated attention over a cache of keys and values.
//
// All dimensions of a head are 256 and its first 64 are rotated. A token's projection row holds, per query
// head, 256 of query and 256 of gate, then the keys of all KV heads, then their values. The cache is [kv
// head][capacity][256] halves. `position` points at the position of the first token; token i of the grid is
// at position + i.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

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
  using Shared = NoShared;
};

// Attention of one token to a share of the positions: threadgroup x of the grid is KV head x / splits and
// positions [share * split, share * (split + 1)), share = positions / splits rounded up to whole chunks
// of 32. The query heads of the KV head stay together, so that each key and value is read once. A split
// beyond the positions has a sum of 0. Grid: (kv_heads * splits, tokens).
struct AttentionSplit {
  enum : uint { threads = 32, dim = 256, chunk = 32, max_group = 8 };
  in<float> queries;
  in<half> keys, values;
  in<uint> position;
  out<float> partial;        // [tokens][heads][splits][256], not yet divided by the sum
  out<float> maximum, sums;  // [tokens][heads][splits]
  uint heads, kv_heads, splits, capacity;
  struct Shared {
    float queries[max_group * dim];
    float weights[max_group * chunk];
  };
};

// Puts the splits together, divides, and multiplies with sigmoid(gate). A dimension is added up by four
// threads, which share the splits. Grid: (heads, tokens).
struct AttentionCombine {
  enum : uint { threads = 1024, dim = 256, batch = 256 };
  in<float> partial, maximum, sums;
  in<float> projection;  // [tokens][stride]
  out<float> y;          // [tokens][heads][256]
  uint heads, splits, stride;
  struct Shared {
    float weights[batch];  // of a batch of splits
    float y[threads];
    float largest[threads / 32], sums[threads / 32];
  };
};

}  // namespace lily::gpu
