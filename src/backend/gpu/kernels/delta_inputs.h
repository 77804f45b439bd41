// Gated DeltaNet over many tokens: convolution, norms and gates of all of them, and the rule token after
// token.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/delta_chunks.h"
#include "backend/gpu/kernels/convolution.h"

using namespace lily::gpu;

GPU_KERNEL(DeltaInputs) {
  const uint dim = DeltaInputs::dim, tokens = DeltaInputs::tokens_per_simd, taps = DeltaRing::taps;
  allow_next();
  wait_for_previous();
  uint part = t.group.x, first = t.group.y * DeltaInputs::tokens_per_group + t.simd * tokens;
  if (first >= a.tokens) return;  // a whole simdgroup
  uint channels = (2 * a.key_heads + a.value_heads) * dim, channel = part * dim + t.lane * 4;
  uint count = min(a.tokens - first, tokens), position = a.position[0];
  float4 x[tokens + taps - 1], weight[taps];  // rows from first - 3 on
  GPU_UNROLL for (uint i = 0; i < taps; ++i) weight[i] = load4(a.convolution + i * channels + channel);
  GPU_UNROLL for (uint i = 0; i < tokens + taps - 1; ++i) {
    x[i] = float4{0.0f, 0.0f, 0.0f, 0.0f};
    if (i < count + taps - 1) {
      uint token = first + i, back = taps - 1;
      x[i] = convolution_row(a.projection, a.window, token, back, position, channel, channels, a.stride);
    }
  }
  GPU_UNROLL for (uint i = 0; i < tokens; ++i) {
    if (i < count) {
      uint token = first + i;
      float4 sum = float4{0.0f, 0.0f, 0.0f, 0.0f};
      GPU_UNROLL for (uint tap = 0; tap < taps; ++tap) sum = sum + weight[tap] * x[i + tap];
      float4 row = float4{silu(sum.x), silu(sum.y), silu(sum.z), silu(sum.w)};
      float scale = rsqrt(simd_sum(dot(row, row)) + 1e-6f);
      if (part < a.key_heads) {
        store4(a.q + (ulong(token) * a.key_heads + part) * dim + t.lane * 4,
               row * (scale * 0.08838834764831845f));  // 1 / sqrt(128)
      } else if (part < 2 * a.key_heads) {
        store4(a.k + (ulong(token) * a.key_heads + part - a.key_heads) * dim + t.lane * 4, row * scale);
      } else {
        uint head = part - 2 * a.key_heads;
        store4(a.v + (ulong(token) * a.value_heads + head) * dim + t.lane * 4, row);
        if (t.lane == 0) {
          in<float> gates = a.projection + ulong(token) * a.stride;
          ulong at = ulong(token) * a.value_heads + head;
          a.beta[at] = sigmoid(gates[a.b_row + head]);
          a.log_decay[at] = a.rate[head] * softplus(gates[a.a_row + head] + a.dt_bias[head]);
        }
      }
    }
  }
}

GPU_KERNEL(DeltaScan) {
  const uint dim = DeltaScan::dim, batch = DeltaScan::batch, part_rows = DeltaScan::dim / DeltaScan::parts;
  allow_next();
  wait_for_previous();
  uint part = t.group.x, head = t.group.y, key_head = head / (a.value_heads / a.key_heads);
  uint row = t.simd * 4 + t.lane / 8, sub = t.lane % 8, slot = a.step[0] % a.ring;
  ulong state_size = ulong(a.value_heads) * dim * dim;
  ulong at = (ulong(head) * dim + part * part_rows + row) * dim + sub * 4;  // pieces of 4 keys, 32 apart
  out<float> next = a.states + (slot + 1) % a.ring * state_size + at;
  float4 state[4];
  GPU_UNROLL for (uint p = 0; p < 4; ++p) state[p] = load4(a.states + slot * state_size + at + p * 32);
  for (uint first = 0; first < a.tokens; first += batch) {
    uint count = min(batch, a.tokens - first);
    for (uint i = t.index; i < count * (dim / 4); i += DeltaScan::threads) {
      ulong from = (ulong(first + i / 32) * a.key_heads + key_head) * dim + i % 32 * 4;
      store4(s.q + i * 4, load4(a.q + from));
      store4(s.k + i * 4, load4(a.k + from));
    }
    for (uint i = t.index; i < count * part_rows; i += DeltaScan::threads) {
      s.v[i] =
          a.v[(ulong(first + i / part_rows) * a.value_heads + head) * dim + part * part_rows + i % part_rows];
    }
    if (t.index < count) {
      s.beta[t.index] = a.beta[ulong(first + t.index) * a.value_heads + head];
      s.decay[t.index] = exp(a.log_decay[ulong(first + t.index) * a.value_heads + head]);
    }
    group_barrier();
    for (uint i = 0; i < count; ++i) {
      float4 k[4];
      float read = 0.0f, before = 0.0f, pair = 0.0f;  // S k, S q and k q
      GPU_UNROLL for (uint p = 0; p < 4; ++p) {
        float4 q = load4(s.q + i * dim + p * 32 + sub * 4);
        k[p] = load4(s.k + i * dim + p * 32 + sub * 4);
        read += dot(state[p], k[p]);
        before += dot(state[p], q);
        pair += dot(k[p], q);
      }
      GPU_UNROLL for (uint mask = 1; mask < 8; mask <<= 1) {
        read += simd_shuffle_xor(read, mask);
        before += simd_shuffle_xor(before, mask);
        pair += simd_shuffle_xor(pair, mask);
      }
      float decay = s.decay[i], error = s.beta[i] * (s.v[i * part_rows + row] - decay * read);
      GPU_UNROLL for (uint p = 0; p < 4; ++p) state[p] = state[p] * decay + k[p] * error;
      if (sub == 0) {
        a.y[(ulong(first + i) * a.value_heads + head) * dim + part * part_rows + row] =
            decay * before + error * pair;
      }
    }
    group_barrier();
  }
  GPU_UNROLL for (uint p = 0; p < 4; ++p) store4(next + p * 32, state[p]);
}
