// Gated DeltaNet: convolution, gates and the delta rule, token after token.
#pragma once
#include "backend/gpu/kernels/args/delta_net.h"
#include "backend/gpu/kernels/convolution.h"

using namespace lily::gpu;

GPU_KERNEL(DeltaStep) {
  const uint dim = DeltaStep::dim, rows = DeltaStep::rows_per_simd,
             part_rows = DeltaStep::dim / DeltaStep::parts;
  allow_next();
  wait_for_previous();
  uint part = t.group.x, head = t.group.y, per_key = a.value_heads / a.key_heads, key_head = head / per_key;
  uint key_rows = a.key_heads * dim, channels = 2 * key_rows + a.value_heads * dim;
  uint position = a.position[0], slot = a.step[0] % a.ring;
  ulong state_size = ulong(a.value_heads) * dim * dim;
  ulong at = (ulong(head) * dim + part * part_rows + t.simd * rows) * dim + t.lane * 4;
  out<float> next = a.states + (slot + 1) % a.ring * state_size + at;
  float4 state[rows];
  GPU_UNROLL for (uint r = 0; r < rows; ++r) state[r] = load4(a.states + slot * state_size + at + r * dim);

  // Threads 0 to 127 have a query channel, 128 to 255 a key channel, the first 32 a value channel as well.
  uint channel = (t.index < dim ? 0 : key_rows) + key_head * dim + t.index % dim;
  uint value_channel = 2 * key_rows + head * dim + part * part_rows + t.index;
  for (uint token = 0; token < a.tokens; ++token) {
    float u = convolve(a.projection, a.window, a.convolution, token, position, channel, channels, a.stride);
    float square = simd_sum(u * u);
    if (t.lane == 0) s.squares[t.simd] = square;
    if (t.index < part_rows) {
      s.v[t.index] =
          convolve(a.projection, a.window, a.convolution, token, position, value_channel, channels, a.stride);
    }
    group_barrier();
    uint half_of = t.index / dim * 4;
    float scale = rsqrt((s.squares[half_of] + s.squares[half_of + 1]) +
                        (s.squares[half_of + 2] + s.squares[half_of + 3]) + 1e-6f);
    if (t.index < dim) {
      s.q[t.index] = u * scale * 0.08838834764831845f;  // 1 / sqrt(128)
    } else {
      s.k[t.index - dim] = u * scale;
    }
    group_barrier();
    in<float> row = a.projection + ulong(token) * a.stride;
    float beta = sigmoid(row[a.b_row + head]);
    float decay = exp(a.rate[head] * softplus(row[a.a_row + head] + a.dt_bias[head]));
    float4 k = load4(s.k + t.lane * 4), q = load4(s.q + t.lane * 4);
    GPU_UNROLL for (uint r = 0; r < rows; ++r) {
      state[r] = state[r] * decay;
      float error = (s.v[t.simd * rows + r] - simd_sum(dot(state[r], k))) * beta;
      state[r] = state[r] + k * error;
      float y = simd_sum(dot(state[r], q));
      if (t.lane == r) {
        a.y[(ulong(token) * a.value_heads + head) * dim + part * part_rows + t.simd * rows + r] = y;
      }
    }
    group_barrier();
  }
  GPU_UNROLL for (uint r = 0; r < rows; ++r) store4(next + r * dim, state[r]);

  // One token: its row's place in the window is none that another threadgroup reads now.
  if (a.tokens == 1) {
    out<float> kept = a.window + position % DeltaRing::window_rows * channels;
    if (part == 0 && head % per_key == 0) kept[channel] = a.projection[channel];
    if (t.index < part_rows) kept[value_channel] = a.projection[value_channel];
  }
}

GPU_KERNEL(DeltaWindow) {
  allow_next();
  wait_for_previous();
  uint channel = t.group.x * DeltaWindow::threads + t.index, position = a.position[0];
  if (channel >= a.channels) return;
  for (uint token = a.tokens - min(a.tokens, DeltaRing::taps - 1u); token < a.tokens; ++token) {
    a.window[(position + token) % DeltaRing::window_rows * a.channels + channel] =
        a.projection[ulong(token) * a.stride + channel];
  }
}
