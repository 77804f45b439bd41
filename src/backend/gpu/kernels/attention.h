// Gated attention over a cache of keys and values.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/attention.h"

using namespace lily::gpu;

namespace lily::gpu {

// Dimensions 8 lane to 8 lane + 7 of a normalized and rotated head; rotated pairs (j, j + 32) lie four lanes
// apart.
GPU_FN void normalize_and_rotate(in<float> x, in<float> norm, in<ulong> turns, uint position, float eps,
                                 uint lane, ref<float[8]> v) {
  uint at = lane * 8;
  float sum = 0.0f;
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    v[i] = x[at + i];
    sum += v[i] * v[i];
  }
  float scale = rsqrt(simd_sum(sum) / float(AttentionPrepare::dim) + eps);
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    v[i] = v[i] * scale * norm[at + i];
    float other = simd_shuffle_xor(v[i], 4);
    if (lane < 8) {
      // The angle in turns is position * turns, of which only the fraction counts: exact at every position.
      uint fraction = uint((position * turns[(lane & 3) * 8 + i]) >> 32);
      float angle = float(int(fraction)) * 1.4629180792671596e-9f;  // 2 pi / 2^32
      float sine = sin(angle);
      v[i] = v[i] * cos(angle) + (lane < 4 ? -other : other) * sine;
    }
  }
}

// A query, divided by 16 = sqrt(256).
GPU_FN void store_query(out<float> query, uint lane, cref<float[8]> v) {
  store4(query + lane * 8, float4{v[0], v[1], v[2], v[3]} * 0.0625f);
  store4(query + lane * 8 + 4, float4{v[4], v[5], v[6], v[7]} * 0.0625f);
}

}  // namespace lily::gpu

GPU_KERNEL(AttentionPrepare) {
  allow_next();
  wait_for_previous();
  uint head = t.group.x, token = t.group.y;
  bool query = head < a.heads;
  uint kv_head = query ? 0 : head - a.heads;
  in<float> row = a.projection + ulong(token) * a.stride;
  in<float> x =
      query ? row + head * (2 * AttentionPrepare::dim) : row + a.k_row + kv_head * AttentionPrepare::dim;
  uint at = t.lane * 8, position = a.position[0] + token;
  float v[8];
  normalize_and_rotate(x, query ? a.q_norm : a.k_norm, a.turns, position, a.eps, t.lane, v);
  if (query) {
    store_query(a.queries + (ulong(token) * a.heads + head) * AttentionPrepare::dim, t.lane, v);
  } else {
    in<float> value = row + a.v_row + kv_head * AttentionPrepare::dim + at;
    float4 p = load4(value), q = load4(value + 4);
    ulong slot = (ulong(kv_head) * a.capacity + position) * AttentionPrepare::dim + at;
    store16(a.keys + slot, uint4{half_pack(v[0], v[1]), half_pack(v[2], v[3]), half_pack(v[4], v[5]),
                                 half_pack(v[6], v[7])});
    store16(a.values + slot,
            uint4{half_pack(p.x, p.y), half_pack(p.z, p.w), half_pack(q.x, q.y), half_pack(q.z, q.w)});
  }
}

// A lane owns one position of a chunk while it multiplies queries with keys, and 8 dimensions while it adds
// values.
GPU_KERNEL(AttentionSplit) {
  const uint dim = AttentionSplit::dim, chunk = AttentionSplit::chunk, max_group = AttentionSplit::max_group;
  allow_next();
  wait_for_previous();
  uint kv_head = t.group.x / a.splits, split = t.group.x % a.splits, token = t.group.y;
  uint group = a.heads / a.kv_heads, positions = a.position[0] + token + 1;
  uint share = (positions + a.splits * chunk - 1) / (a.splits * chunk) * chunk;
  uint begin = min(split * share, positions), end = min(begin + share, positions);

  in<float> queries = a.queries + (ulong(token) * a.heads + kv_head * group) * dim;
  for (uint i = t.lane * 4; i < group * dim; i += 128) store4(s.queries + i, load4(queries + i));
  simd_sync();

  float largest[max_group], sum[max_group], y[max_group][8];
  GPU_UNROLL for (uint h = 0; h < max_group; ++h) {
    largest[h] = -1e30f;
    sum[h] = 0.0f;
    GPU_UNROLL for (uint i = 0; i < 8; ++i) y[h][i] = 0.0f;
  }
  for (uint first = begin; first < end; first += chunk) {
    uint mine = first + t.lane;
    float score[max_group];
    GPU_UNROLL for (uint h = 0; h < max_group; ++h) score[h] = 0.0f;
    if (mine < end) {
      in<half> key = a.keys + (ulong(kv_head) * a.capacity + mine) * dim;
      for (uint d = 0; d < dim; d += 8) {
        uint4 k = load16(key + d);
        float2 k0 = half_unpack(k.x), k1 = half_unpack(k.y), k2 = half_unpack(k.z), k3 = half_unpack(k.w);
        GPU_UNROLL for (uint h = 0; h < max_group; ++h) {
          if (h < group) {
            float4 q0 = load4(s.queries + h * dim + d), q1 = load4(s.queries + h * dim + d + 4);
            score[h] += dot(q0, float4{k0.x, k0.y, k1.x, k1.y}) + dot(q1, float4{k2.x, k2.y, k3.x, k3.y});
          }
        }
      }
    }
    GPU_UNROLL for (uint h = 0; h < max_group; ++h) {
      if (h < group) {
        float top = max(largest[h], simd_max(mine < end ? score[h] : -1e30f));
        float weight = mine < end ? exp(score[h] - top) : 0.0f, keep = exp(largest[h] - top);
        largest[h] = top;
        sum[h] = sum[h] * keep + simd_sum(weight);
        GPU_UNROLL for (uint i = 0; i < 8; ++i) y[h][i] *= keep;
        s.weights[h * chunk + t.lane] = weight;
      }
    }
    simd_sync();
    for (uint j = 0; j < min(chunk, end - first); ++j) {
      uint4 v = load16(a.values + (ulong(kv_head) * a.capacity + first + j) * dim + t.lane * 8);
      float2 v0 = half_unpack(v.x), v1 = half_unpack(v.y), v2 = half_unpack(v.z), v3 = half_unpack(v.w);
      float value[8] = {v0.x, v0.y, v1.x, v1.y, v2.x, v2.y, v3.x, v3.y};
      GPU_UNROLL for (uint h = 0; h < max_group; ++h) {
        if (h < group) {
          float weight = s.weights[h * chunk + j];
          GPU_UNROLL for (uint i = 0; i < 8; ++i) y[h][i] += weight * value[i];
        }
      }
    }
    simd_sync();
  }
  GPU_UNROLL for (uint h = 0; h < max_group; ++h) {
    if (h < group) {
      ulong at = (ulong(token) * a.heads + kv_head * group + h) * a.splits + split;
      if (t.lane == 0) {
        a.maximum[at] = largest[h];
        a.sums[at] = sum[h];
      }
      store4(a.partial + at * dim + t.lane * 8, float4{y[h][0], y[h][1], y[h][2], y[h][3]});
      store4(a.partial + at * dim + t.lane * 8 + 4, float4{y[h][4], y[h][5], y[h][6], y[h][7]});
    }
  }
}

GPU_KERNEL(AttentionCombine) {
  const uint dim = AttentionCombine::dim, batch = AttentionCombine::batch,
             parts = AttentionCombine::threads / AttentionCombine::dim, unroll = 4;
  allow_next();
  wait_for_previous();
  uint head = t.group.x, token = t.group.y, d = t.index % dim, part = t.index / dim;
  ulong at = (ulong(token) * a.heads + head) * a.splits;
  float largest = -1e30f, sum = 0.0f, y = 0.0f;
  for (uint i = t.index; i < a.splits; i += AttentionCombine::threads) {
    largest = max(largest, a.maximum[at + i]);
  }
  largest = simd_max(largest);
  if (t.lane == 0) s.largest[t.simd] = largest;
  group_barrier();
  largest = simd_max(s.largest[t.lane]);  // as many simdgroups as lanes
  for (uint first = 0; first < a.splits; first += batch) {
    uint count = min(batch, a.splits - first);
    if (t.index < batch) {
      float share = t.index < count ? a.sums[at + first + t.index] : 0.0f;
      float weight = share > 0.0f ? exp(a.maximum[at + first + t.index] - largest) : 0.0f;
      s.weights[t.index] = weight;
      sum += weight * share;
    }
    group_barrier();
    for (uint i = part; i < count; i += parts * unroll) {
      GPU_UNROLL for (uint j = 0; j < unroll; ++j) {
        uint split = i + j * parts;
        // The partial sums of an empty split may be anything.
        if (split < count && s.weights[split] > 0.0f) {
          y += s.weights[split] * a.partial[(at + first + split) * dim + d];
        }
      }
    }
    group_barrier();
  }
  s.y[t.index] = y;
  sum = simd_sum(sum);
  if (t.lane == 0) s.sums[t.simd] = sum;
  group_barrier();
  if (t.index < dim) {
    y = s.y[d];
    GPU_UNROLL for (uint i = 1; i < parts; ++i) y += s.y[i * dim + d];
    sum = s.sums[0];
    for (uint i = 1; i < batch / 32; ++i) sum += s.sums[i];
    float gate = a.projection[ulong(token) * a.stride + head * 2 * dim + dim + d];
    a.y[(ulong(token) * a.heads + head) * dim + d] = y / sum * sigmoid(gate);
  }
}
