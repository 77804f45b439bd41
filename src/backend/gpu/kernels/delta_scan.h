// The gated delta rule, token after token.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/delta_net.h"

using namespace lily::gpu;

GPU_KERNEL(DeltaScan) {
  const uint dim = DeltaScan::dim;
  uint row = t.group.x * DeltaScan::rows_per_group + t.simd;
  uint head = t.group.y, key_head = head / (a.value_heads / a.key_heads);
  ulong at = (ulong(head) * dim + row) * dim + t.lane * 4;
  float4 state = load4(a.state + at);
  for (uint token = 0; token < a.tokens; ++token) {
    ulong key = (ulong(token) * a.key_heads + key_head) * dim + t.lane * 4;
    ulong value = ulong(token) * a.value_heads + head;
    float4 k = load4(a.k + key), q = load4(a.q + key);
    state = state * a.decay[value];
    float error = (a.v[value * dim + row] - simd_sum(dot(state, k))) * a.beta[value];
    state = state + k * error;
    float y = simd_sum(dot(state, q));
    if (t.lane == 0) a.y[value * dim + row] = y;
  }
  store4(a.state_out + at, state);
}
