// Keys and values as 8-bit codes.
#pragma once
#include "backend/gpu/kernels/args/attention_tiles.h"
#include "backend/gpu/kernels/attention.h"

using namespace lily::gpu;

namespace lily::gpu {

// Codes of a lane's eight values; eight lanes share a scale. All 32 lanes together.
GPU_FN void store_codes(cref<float[8]> v, out<uint> codes, out<float> scales, uint lane) {
  float largest = 0.0f;
  GPU_UNROLL for (uint i = 0; i < 8; ++i) largest = max(largest, fabs(v[i]));
  GPU_UNROLL for (uint mask = 1; mask < 8; mask <<= 1) {
    largest = max(largest, simd_shuffle_xor(largest, mask));
  }
  float scale = largest / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  uint word[2] = {0, 0};
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    word[i / 4] |= (uint(round_to_int(v[i] * inverse)) & 255u) << (8 * (i & 3));
  }
  codes[lane * 2] = word[0];
  codes[lane * 2 + 1] = word[1];
  if ((lane & 7) == 0) scales[lane >> 3] = scale;
}

}  // namespace lily::gpu

GPU_KERNEL(AttentionPrepareInt8) {
  const uint dim = AttentionPrepareInt8::dim;
  allow_next();
  wait_for_previous();
  uint head = t.group.x, token = t.group.y, position = a.position[0] + token;
  bool query = head < a.heads;
  uint kv_head = query ? 0 : head - a.heads;
  in<float> row = a.projection + ulong(token) * a.stride;
  in<float> x = query ? row + head * (2 * dim) : row + a.k_row + kv_head * dim;
  float v[8];
  normalize_and_rotate(x, query ? a.q_norm : a.k_norm, a.turns, position, a.eps, t.lane, v);
  if (query) {
    store_query(a.queries + (ulong(token) * a.heads + head) * dim, t.lane, v);
  } else {
    ulong slot = ulong(kv_head) * a.capacity + position;
    store_codes(v, a.keys + slot * (dim / 4), a.key_scales + slot * 4, t.lane);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) v[i] = row[a.v_row + kv_head * dim + t.lane * 8 + i];
    store_codes(v, a.values + slot * (dim / 4), a.value_scales + slot * 4, t.lane);
  }
}
