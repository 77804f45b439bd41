// Keys and values as 8-bit codes, and back.
#pragma once
#include "backend/gpu/kernels/args/attention_tiles.h"
#include "backend/gpu/kernels/attention_rows.h"
#include "backend/gpu/kernels/cache_rows.h"

using namespace lily::gpu;

GPU_KERNEL(AttentionPrepareInt8) {
  const uint dim = AttentionPrepareInt8::dim;
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
  load_eight(row + (query ? head * (2 * dim) : a.k_row + kv_head * dim) + t.lane * 8, v);
  normalize_and_rotate(v, norm, &s, a.eps, t.lane);
  if (query) {
    store_query(a.queries + (ulong(token) * a.heads + head) * dim, t.lane, v);
  } else {
    ulong slot = ulong(kv_head) * a.capacity + position;
    store_codes(v, a.keys + slot * (dim / 4), a.key_scales + slot * 4, t.lane);
    load_eight(row + a.v_row + kv_head * dim + t.lane * 8, v);
    store_codes(v, a.values + slot * (dim / 4), a.value_scales + slot * 4, t.lane);
  }
}

GPU_KERNEL(CacheHalves) {
  const uint dim = CacheHalves::dim, rows = CacheHalves::rows;
  allow_next();
  wait_for_previous();
  uint count = a.position[0] + a.tokens, column = t.index % (dim / 16) * 16;
  for (uint first = t.group.x * rows; first < count; first += a.groups * rows) {
    uint row = first + t.index / (dim / 16);
    if (row < count) {
      ulong at = ulong(t.group.y) * a.capacity + row;
      uint4 v = load16(a.codes + at * dim + column);
      float scale = a.scales[at * (dim / CacheRows::group) + column / CacheRows::group];
      store16(a.halves + at * dim + column, eight_codes(v.x, v.y, scale));
      store16(a.halves + at * dim + column + 8, eight_codes(v.z, v.w, scale));
    }
  }
}
