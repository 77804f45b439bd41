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

GPU_KERNEL(AttentionCombine) {
  const uint dim = AttentionCombine::dim, batch = AttentionCombine::batch,
             columns = AttentionCombine::columns,
             parts = AttentionCombine::threads / AttentionCombine::columns, unroll = 4;
  allow_next();
  wait_for_previous();
  uint head = t.group.x / (dim / columns), token = t.group.y, part = t.index / columns;
  uint d = t.group.x % (dim / columns) * columns + t.index % columns;
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
  if (t.index < columns) {
    y = s.y[t.index];
    GPU_UNROLL for (uint i = 1; i < parts; ++i) y += s.y[i * columns + t.index];
    sum = s.sums[0];
    for (uint i = 1; i < batch / 32; ++i) sum += s.sums[i];
    float gate = a.projection[ulong(token) * a.stride + head * 2 * dim + dim + d];
    a.y[(ulong(token) * a.heads + head) * dim + d] = y / sum * sigmoid(gate);
  }
}
