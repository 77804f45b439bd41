// Gated attention on matrix tiles: decode over halves and over 8-bit codes, and prefill.
//
// Layouts are those of args/attention.h. An 8-bit cache holds signed codes [kv head][capacity][256] and a
// scale per 64 of them [kv head][capacity][4]: value = scale * code, scale = largest magnitude / 127.
#pragma once

#include "backend/gpu/kernels/args/attention.h"

namespace lily::gpu {

// Rows of the cache in threadgroup memory.
struct CacheRows {
  enum : uint { rows = 32, dim = 256, group = 64, threads = 128, ld = dim + 8 };  // ld: no bank twice
};

// AttentionPrepare for an 8-bit cache.
struct AttentionPrepareInt8 {
  enum : uint { threads = 32, dim = 256, rotated = 64 };
  in<float> projection;
  in<float> q_norm, k_norm;
  in<ulong> turns;
  in<uint> position;
  out<float> queries;
  out<uint> keys, values;  // four codes a word
  out<float> key_scales, value_scales;
  uint heads, kv_heads, stride, k_row, v_row, capacity;
  float eps;
  using Shared = AttentionRotation;
};

struct AttentionTileShared {
  half rows[CacheRows::rows * CacheRows::ld];
  float scores[4 * 16 * 33];  // [simdgroup][row][position]
  float weights[8 * 33];      // [head][position]
  float keep[8];
};

// Attention of one token to a share of the positions: threadgroup x of the grid is KV head x / splits and
// positions [share * split, share * (split + 1)), share = positions / splits rounded up to whole chunks of
// 32. A split beyond the positions has a sum of 0, and its partial sums are not written.
//
// Of 32 positions a simdgroup multiplies 64 dimensions of the keys, two heads' softmax and 64 dimensions of
// the values. A query and a weight are two halves each, which lie in the rows h and h + 8 of one tile: so
// they are as exact as 22 bits, and the eight heads fill the tile. Grid: (kv_heads * splits, tokens).
struct AttentionDecode {
  enum : uint { threads = 128, dim = 256, chunk = 32, max_group = 8 };
  in<float> queries;
  in<half> keys, values;
  in<uint> position;
  out<float> partial;        // [tokens][heads][splits][256], not yet divided by the sum
  out<float> maximum, sums;  // [tokens][heads][splits]
  uint heads, kv_heads, splits, capacity;
  using Shared = AttentionTileShared;
};

// The same over an 8-bit cache.
struct AttentionDecodeInt8 {
  enum : uint { threads = 128, dim = 256, chunk = 32, max_group = 8 };
  in<float> queries;
  in<uchar> keys, values;
  in<float> key_scales, value_scales;
  in<uint> position;
  out<float> partial;
  out<float> maximum, sums;
  uint heads, kv_heads, splits, capacity;
  using Shared = AttentionTileShared;
};

struct AttentionPrefillShared {
  half rows[CacheRows::rows * CacheRows::ld];
  float scores[4 * 16 * 33];  // [simdgroup][row][position]
  float keep[4 * 16];
};

// Causal attention of many tokens, multiplied with sigmoid(gate). The query heads of a KV head and the tokens
// are one list of rows, token * group + head, of which a threadgroup takes 64 and a simdgroup 16; positions
// after a threadgroup's last token are never read. Queries, keys, values and weights are halves, sums fp32.
// Grid: (kv_heads, tokens * group / 64 rounded up), group = heads / kv_heads; the last rows, which have the
// most positions, come first.
struct AttentionPrefill {
  enum : uint { threads = 128, rows = 64, dim = 256, chunk = 32 };
  in<float> queries;  // [tokens][heads][256], divided by 16
  in<half> keys, values;
  in<float> projection;  // [tokens][stride], for the gates
  in<uint> position;     // of the first token
  out<float> y;          // [tokens][heads][256]
  uint tokens, heads, kv_heads, stride, capacity;
  using Shared = AttentionPrefillShared;
};

// Rows of an 8-bit cache, up to those of the pass's last token, as a cache of halves: scale * code, rounded.
// Grid: (groups, kv_heads), each of which takes every groups-th 16 rows.
struct CacheHalves {
  enum : uint { threads = 256, dim = 256, rows = threads * 16 / dim };
  in<uchar> codes;
  in<float> scales;
  in<uint> position;  // of the pass's first token
  out<half> halves;   // [kv head][capacity][256]
  uint tokens, capacity, groups;
  using Shared = NoShared;
};

}  // namespace lily::gpu
