// Attention of one token on matrix tiles.
#pragma once
#include "backend/gpu/dialect/tile.h"
#include "backend/gpu/kernels/cache_rows.h"

using namespace lily::gpu;

namespace lily::gpu {

// A float as two halves: itself rounded, and the rest times 2^11.
GPU_FN half split_half(float x, bool rest) {
  half high = half(x);
  return rest ? half((x - float(high)) * 2048.0f) : high;
}
GPU_FN float join_halves(float high, float rest) { return high + rest * (1.0f / 2048.0f); }

// Which positions are a split's.
struct AttentionShare {
  uint begin, end;
};
GPU_FN AttentionShare attention_share(uint positions, uint splits, uint split) {
  uint chunk = CacheRows::rows;
  uint share = (positions + splits * chunk - 1) / (splits * chunk) * chunk;
  uint begin = min(split * share, positions);
  return AttentionShare{begin, min(begin + share, positions)};
}

// Queries, keys and values are those of one token and KV head, `at` is the first head's place in the outputs.
// Scales belong to 8-bit codes only.
template <class Element>
GPU_FN void attend_share(AttentionShare share, in<float> queries, in<Element> keys, in<Element> values,
                         in<float> key_scales, in<float> value_scales, out<float> partial, out<float> maximum,
                         out<float> sums, ulong at, uint group, uint splits, Thread t, shared<half> rows,
                         shared<float> scores, shared<float> weights, shared<float> keep) {
  const uint dim = CacheRows::dim, ld = CacheRows::ld, chunk = CacheRows::rows, heads = 8, score_ld = 33;
  const bool codes = sizeof(Element) == 1;
  const float lift = codes ? 64.0f : 1.0f;  // keeps weight * scale away from the end of what a half holds
  uint mine = t.simd * CacheRows::group;    // dimensions of this simdgroup, a group of the scales
  shared<float> own = scores + t.simd * 16 * score_ld;

  for (uint i = t.index; i < 16 * dim; i += CacheRows::threads) {
    uint row = i / dim, d = i % dim;
    rows[row * ld + d] = split_half((row & 7) < group ? queries[(row & 7) * dim + d] : 0.0f, row >= heads);
  }
  group_barrier();
  Tile<half> q[4];
  GPU_UNROLL for (uint j = 0; j < 4; ++j) tile_load(q[j], rows + mine + j * 16, ld, t.lane);
  group_barrier();

  Tile<float> y[4];
  GPU_UNROLL for (uint j = 0; j < 4; ++j) tile_zero(y[j]);
  float largest[2] = {-1e30f, -1e30f}, sum[2] = {0.0f, 0.0f};  // of heads simd and simd + 4
  CacheShare<Element> next;
  fetch_rows(next, keys + ulong(share.begin) * dim, min(chunk, share.end - share.begin), t.index);
  for (uint first = share.begin; first < share.end; first += chunk) {
    uint count = min(chunk, share.end - first);
    put_rows(next, rows, t.index);
    fetch_rows(next, values + ulong(first) * dim, count, t.index);
    group_barrier();
    Tile<float> c0, c1;
    tile_zero(c0);
    tile_zero(c1);
    GPU_UNROLL for (uint j = 0; j < 4; ++j) {
      Tile<half> k0, k1;
      tile_load_right(k0, rows + mine + j * 16, ld, t.lane);
      tile_load_right(k1, rows + 16 * ld + mine + j * 16, ld, t.lane);
      tile_mma(c0, c1, q[j], k0, k1);
    }
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      uint place = tile_row(t.lane, i) * score_ld + tile_col(t.lane, i);
      own[place] = c0.v[i];
      own[place + 16] = c1.v[i];
    }
    group_barrier();
    put_rows(next, rows, t.index);
    if (first + chunk < share.end) {
      fetch_rows(next, keys + ulong(first + chunk) * dim, min(chunk, share.end - first - chunk), t.index);
    }
    bool live = t.lane < count;
    GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      uint head = t.simd + 4 * n;
      float score = 0.0f;
      GPU_UNROLL for (uint g = 0; g < 4; ++g) {
        shared<float> part = scores + (g * 16 + head) * score_ld + t.lane;
        float joined = join_halves(part[0], part[heads * score_ld]);
        if (codes && live) joined *= key_scales[(first + t.lane) * 4 + g];
        score += joined;
      }
      float top = max(largest[n], simd_max(live ? score : -1e30f));
      float weight = live ? exp(score - top) : 0.0f, kept = exp(largest[n] - top);
      largest[n] = top;
      sum[n] = sum[n] * kept + simd_sum(weight);
      weights[head * score_ld + t.lane] = weight;
      if (t.lane == 0) keep[head] = kept;
    }
    group_barrier();
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      float kept = keep[tile_row(t.lane, i) & 7];
      GPU_UNROLL for (uint j = 0; j < 4; ++j) y[j].v[i] *= kept;
    }
    GPU_UNROLL for (uint step = 0; step < 2; ++step) {
      Tile<half> p;
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        uint row = tile_row(t.lane, i), column = step * 16 + tile_col(t.lane, i);
        float weight = weights[(row & 7) * score_ld + column] * lift;
        if (codes) weight = column < count ? weight * value_scales[(first + column) * 4 + t.simd] : 0.0f;
        p.v[i] = split_half(weight, row >= heads);
      }
      GPU_UNROLL for (uint j = 0; j < 4; j += 2) {
        Tile<half> v0, v1;
        tile_load_right_transposed(v0, rows + step * 16 * ld + mine + j * 16, ld, t.lane);
        tile_load_right_transposed(v1, rows + step * 16 * ld + mine + j * 16 + 16, ld, t.lane);
        tile_mma(y[j], y[j + 1], p, v0, v1);
      }
    }
    group_barrier();
  }

  GPU_UNROLL for (uint j = 0; j < 4; j += 2) {
    simd_sync();
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      uint place = tile_row(t.lane, i) * score_ld + tile_col(t.lane, i);
      own[place] = y[j].v[i];
      own[place + 16] = y[j + 1].v[i];
    }
    simd_sync();
    for (uint head = 0; head < group; ++head) {
      shared<float> part = own + head * score_ld + t.lane;
      partial[(at + head * splits) * dim + mine + j * 16 + t.lane] =
          join_halves(part[0], part[heads * score_ld]) * (1.0f / lift);
    }
  }
  GPU_UNROLL for (uint n = 0; n < 2; ++n) {
    uint head = t.simd + 4 * n;
    if (t.lane == 0 && head < group) {
      maximum[at + head * splits] = largest[n];
      sums[at + head * splits] = sum[n];
    }
  }
}

GPU_FN void empty_share(out<float> maximum, out<float> sums, ulong at, uint group, uint splits, uint index) {
  if (index < group) {
    maximum[at + index * splits] = -1e30f;
    sums[at + index * splits] = 0.0f;
  }
}

}  // namespace lily::gpu

GPU_KERNEL(AttentionDecode) {
  allow_next();
  wait_for_previous();
  uint kv_head = t.group.x / a.splits, split = t.group.x % a.splits, token = t.group.y;
  uint group = a.heads / a.kv_heads;
  AttentionShare share = attention_share(a.position[0] + token + 1, a.splits, split);
  ulong head = ulong(token) * a.heads + kv_head * group, at = head * a.splits + split;
  if (share.begin == share.end) {
    empty_share(a.maximum, a.sums, at, group, a.splits, t.index);
    return;
  }
  ulong cache = ulong(kv_head) * a.capacity * CacheRows::dim;
  in<float> none = a.queries;
  attend_share<half>(share, a.queries + head * CacheRows::dim, a.keys + cache, a.values + cache, none, none,
                     a.partial, a.maximum, a.sums, at, group, a.splits, t, s.rows, s.scores, s.weights,
                     s.keep);
}

GPU_KERNEL(AttentionDecodeInt8) {
  allow_next();
  wait_for_previous();
  uint kv_head = t.group.x / a.splits, split = t.group.x % a.splits, token = t.group.y;
  uint group = a.heads / a.kv_heads;
  AttentionShare share = attention_share(a.position[0] + token + 1, a.splits, split);
  ulong head = ulong(token) * a.heads + kv_head * group, at = head * a.splits + split;
  if (share.begin == share.end) {
    empty_share(a.maximum, a.sums, at, group, a.splits, t.index);
    return;
  }
  ulong cache = ulong(kv_head) * a.capacity;
  attend_share<uchar>(share, a.queries + head * CacheRows::dim, a.keys + cache * CacheRows::dim,
                      a.values + cache * CacheRows::dim, a.key_scales + cache * 4, a.value_scales + cache * 4,
                      a.partial, a.maximum, a.sums, at, group, a.splits, t, s.rows, s.scores, s.weights,
                      s.keep);
}
