// Gated attention over a cache of keys and values.
#pragma once
#include "backend/gpu/kernels/attention_rows.h"

using namespace lily::gpu;

GPU_KERNEL(AttentionPrepare) {
  allow_next();
  uint head = t.group.x, token = t.group.y, position = a.position[0] + token;
  bool query = head < a.heads;
  uint kv_head = query ? 0 : head - a.heads;
  float norm[8], v[8];
  load_eight((query ? a.q_norm : a.k_norm) + t.lane * 8, norm);
  put_rotation(&s, a.turns, position, t.lane);
  simd_sync();
  wait_for_previous();
  in<float> row = a.projection + ulong(token) * a.stride;
  const uint dim = AttentionPrepare::dim;
  load_eight(row + (query ? head * (2 * dim) : a.k_row + kv_head * dim) + t.lane * 8, v);
  normalize_and_rotate(v, norm, &s, a.eps, t.lane);
  if (query) {
    store_query(a.queries + (ulong(token) * a.heads + head) * AttentionPrepare::dim, t.lane, v);
  } else {
    uint at = t.lane * 8;
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
  const uint dim = AttentionCombine::dim, columns = AttentionCombine::columns,
             parts = AttentionCombine::parts, unroll = 5;
  allow_next();
  uint head = t.group.x / AttentionCombine::groups, token = t.group.y, part = t.index / columns;
  uint d = t.group.x % AttentionCombine::groups * columns + t.index % columns;
  ulong at = (ulong(token) * a.heads + head) * a.splits;
  wait_for_previous();
  float gate = a.projection[ulong(token) * a.stride + head * 2 * dim + dim + d];
  float largest = -1e30f, sum = 0.0f, y = 0.0f;
  for (uint first = part; first < a.splits; first += parts * unroll) {
    float top[unroll], share[unroll], value[unroll], most = largest;
    GPU_UNROLL for (uint j = 0; j < unroll; ++j) {
      uint split = first + j * parts;
      bool real = split < a.splits;
      top[j] = real ? a.maximum[at + split] : -1e30f;
      share[j] = real ? a.sums[at + split] : 0.0f;
    }
    GPU_UNROLL for (uint j = 0; j < unroll; ++j) {
      uint split = first + j * parts;
      value[j] = split < a.splits ? a.partial[(at + split) * dim + d] : 0.0f;
      most = max(most, top[j]);
    }
    float kept = exp(largest - most);
    largest = most;
    sum *= kept;
    y *= kept;
    GPU_UNROLL for (uint j = 0; j < unroll; ++j) {
      float weight = exp(top[j] - largest);
      sum += weight * share[j];
      y += share[j] > 0.0f ? weight * value[j] : 0.0f;  // an empty split's partial sums may be anything
    }
  }
  s.y[t.index] = y;
  if (t.index % columns == 0) {
    s.largest[part] = largest;
    s.sums[part] = sum;
  }
  group_barrier();
  if (part == 0) {
    GPU_UNROLL for (uint i = 0; i < parts; ++i) largest = max(largest, s.largest[i]);
    sum = 0.0f;
    y = 0.0f;
    GPU_UNROLL for (uint i = 0; i < parts; ++i) {
      float weight = exp(s.largest[i] - largest);
      sum += weight * s.sums[i];
      y += weight * s.y[i * columns + t.index];
    }
    a.y[(ulong(token) * a.heads + head) * dim + d] = y / sum * sigmoid(gate);
  }
}
