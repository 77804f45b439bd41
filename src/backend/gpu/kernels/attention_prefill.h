// Causal attention of many tokens on matrix tiles.
#pragma once
#include "backend/gpu/dialect/tile.h"
#include "backend/gpu/kernels/cache_rows.h"

using namespace lily::gpu;

namespace lily::gpu {

// One KV head's rows from `first_row` on; row r is token r / group and query head r % group of the KV head.
// `queries`, `gates` and `y` point at the KV head's first query head.
GPU_FN void attend_rows(in<float> queries, in<half> keys, in<half> values, in<float> gates, out<float> y,
                        uint first_row, uint tokens, uint heads, uint group, uint stride, uint position,
                        Thread t, shared<half> rows, shared<float> scores, shared<float> keep) {
  const uint dim = CacheRows::dim, ld = CacheRows::ld, chunk = CacheRows::rows, score_ld = 33;
  uint row_count = tokens * group, own_row = first_row + t.simd * 16;
  uint last = min(first_row + AttentionPrefill::rows, row_count) - 1;  // of the threadgroup
  uint end = position + last / group + 1;
  shared<float> own = scores + t.simd * 16 * score_ld;
  shared<float> own_keep = keep + t.simd * 16;

  // Queries become tiles by way of the room of the keys, 32 rows at a time.
  Tile<half> q[16];
  GPU_UNROLL for (uint part = 0; part < 2; ++part) {
    for (uint i = t.index; i < 32 * dim; i += CacheRows::threads) {
      uint row = first_row + part * 32 + i / dim, d = i % dim;
      bool real = row < row_count;
      ulong from = (ulong(real ? row / group : 0) * heads + (real ? row % group : 0)) * dim + d;
      rows[i / dim * ld + d] = half(real ? queries[from] : 0.0f);
    }
    group_barrier();
    if (t.simd / 2 == part) {
      GPU_UNROLL for (uint j = 0; j < 16; ++j) {
        tile_load(q[j], rows + (t.simd & 1) * 16 * ld + j * 16, ld, t.lane);
      }
    }
    group_barrier();
  }

  // While weights are made, two lanes share a row: positions 16 (lane % 2) to + 15.
  uint soft_row = t.lane / 2, soft_first = t.lane % 2 * 16;
  uint soft_end = position + min(own_row + soft_row, last) / group + 1;
  float largest = -1e30f, sum = 0.0f;
  Tile<float> c[16];
  GPU_UNROLL for (uint j = 0; j < 16; ++j) tile_zero(c[j]);
  CacheShare<half> share;
  for (uint first = 0; first < end; first += chunk) {
    uint count = min(chunk, end - first);
    // Rows are not fetched earlier: beside queries and sums there are no registers for them.
    fetch_rows(share, keys + ulong(first) * dim, count, t.index);
    put_rows(share, rows, t.index);
    group_barrier();
    Tile<float> s0, s1;
    tile_zero(s0);
    tile_zero(s1);
    GPU_UNROLL for (uint j = 0; j < 16; ++j) {
      Tile<half> k0, k1;
      tile_load_right(k0, rows + j * 16, ld, t.lane);
      tile_load_right(k1, rows + 16 * ld + j * 16, ld, t.lane);
      tile_mma(s0, s1, q[j], k0, k1);
    }
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      uint place = tile_row(t.lane, i) * score_ld + tile_col(t.lane, i);
      own[place] = s0.v[i];
      own[place + 16] = s1.v[i];
    }
    group_barrier();
    fetch_rows(share, values + ulong(first) * dim, count, t.index);
    put_rows(share, rows, t.index);
    shared<float> score = own + soft_row * score_ld + soft_first;
    float top = largest;
    GPU_UNROLL for (uint i = 0; i < 16; ++i) {
      if (first + soft_first + i < soft_end) top = max(top, score[i]);
    }
    top = max(top, simd_shuffle_xor(top, 1));
    float added = 0.0f;
    GPU_UNROLL for (uint i = 0; i < 16; ++i) {
      float weight = first + soft_first + i < soft_end ? exp(score[i] - top) : 0.0f;
      score[i] = weight;
      added += weight;
    }
    float kept = exp(largest - top);
    largest = top;
    sum = sum * kept + (added + simd_shuffle_xor(added, 1));
    own_keep[soft_row] = kept;
    group_barrier();
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      float kept_row = own_keep[tile_row(t.lane, i)];
      GPU_UNROLL for (uint j = 0; j < 16; ++j) c[j].v[i] *= kept_row;
    }
    GPU_UNROLL for (uint step = 0; step < 2; ++step) {
      Tile<half> p;
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        p.v[i] = half(own[tile_row(t.lane, i) * score_ld + step * 16 + tile_col(t.lane, i)]);
      }
      GPU_UNROLL for (uint j = 0; j < 16; j += 2) {
        Tile<half> v0, v1;
        tile_load_right_transposed(v0, rows + step * 16 * ld + j * 16, ld, t.lane);
        tile_load_right_transposed(v1, rows + step * 16 * ld + j * 16 + 16, ld, t.lane);
        tile_mma(c[j], c[j + 1], p, v0, v1);
      }
    }
    group_barrier();
  }

  own_keep[soft_row] = 1.0f / sum;
  GPU_UNROLL for (uint j = 0; j < 16; j += 2) {
    simd_sync();
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      uint place = tile_row(t.lane, i) * score_ld + tile_col(t.lane, i);
      own[place] = c[j].v[i];
      own[place + 16] = c[j + 1].v[i];
    }
    simd_sync();
    for (uint r = 0; r < 16 && own_row + r < row_count; ++r) {
      uint token = (own_row + r) / group, head = (own_row + r) % group, d = j * 16 + t.lane;
      float gate = gates[ulong(token) * stride + head * 2 * dim + dim + d];
      y[(ulong(token) * heads + head) * dim + d] = own[r * score_ld + t.lane] * own_keep[r] * sigmoid(gate);
    }
  }
}

// The rows of threadgroup y of n, the last ones first.
GPU_FN uint prefill_rows(uint y, uint rows) {
  return ((rows + AttentionPrefill::rows - 1) / AttentionPrefill::rows - 1 - y) * AttentionPrefill::rows;
}

}  // namespace lily::gpu

GPU_KERNEL(AttentionPrefill) {
  allow_next();
  wait_for_previous();
  uint kv_head = t.group.x, group = a.heads / a.kv_heads, first_head = kv_head * group;
  ulong cache = ulong(kv_head) * a.capacity * CacheRows::dim;
  attend_rows(a.queries + first_head * CacheRows::dim, a.keys + cache, a.values + cache,
              a.projection + first_head * 2 * CacheRows::dim, a.y + first_head * CacheRows::dim,
              prefill_rows(t.group.y, a.tokens * group), a.tokens, a.heads, group, a.stride, a.position[0], t,
              s.rows, s.scores, s.keep);
}
