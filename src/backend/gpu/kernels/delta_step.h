// Gated DeltaNet for one token: convolution, gates and the delta rule.
#pragma once
#include "backend/gpu/kernels/args/delta_net.h"
#include "backend/gpu/kernels/products.h"

using namespace lily::gpu;

namespace lily::gpu {

// Both sums over the simdgroup, by little more than the exchanges of one.
GPU_FN void simd_sum_two(ref<float> a, ref<float> b, uint lane) {
  bool odd = (lane & 1) == 1;
  float sum = (odd ? b : a) + simd_shuffle_xor(odd ? a : b, 1);
  GPU_UNROLL for (uint mask = 2; mask < 32; mask <<= 1) sum += simd_shuffle_xor(sum, mask);
  float other = simd_shuffle_xor(sum, 1);
  a = odd ? other : sum;
  b = odd ? sum : other;
}

// The taps of earlier tokens at one channel, from the window.
GPU_FN float earlier_taps(in<float> window, in<float> weights, uint position, uint channel, uint channels) {
  float sum = 0.0f;
  GPU_UNROLL for (uint tap = 0; tap + 1 < DeltaRing::taps; ++tap) {
    uint back = DeltaRing::taps - 1 - tap;
    float x = 0.0f;
    if (position >= back) x = window[(position - back) % DeltaRing::window_rows * channels + channel];
    sum += weights[tap * channels + channel] * x;
  }
  return sum;
}

}  // namespace lily::gpu

GPU_KERNEL(DeltaStep) {
  const uint dim = DeltaStep::dim, rows = DeltaStep::rows_per_simd, last = DeltaRing::taps - 1,
             part_rows = DeltaStep::dim / DeltaStep::parts;
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
  uint value_channel = 2 * key_rows + head * dim + part * part_rows + t.index % part_rows;
  float u = earlier_taps(a.window, a.convolution, position, channel, channels);
  float v = earlier_taps(a.window, a.convolution, position, value_channel, channels);
  float weight = a.convolution[last * channels + channel], rate = a.rate[head], dt_bias = a.dt_bias[head],
        value_weight = a.convolution[last * channels + value_channel];
  if (t.simd == DeltaStep::threads / 32 - 1 && a.next_blocks != 0) {
    prefetch_share(a.next, a.next_blocks, head * DeltaStep::parts + part, a.value_heads * DeltaStep::parts,
                   t.lane);
  }
  wait_for_previous();
  allow_next();  // not earlier: AddGatedProject relies on the projection being there when it starts

  float x = a.projection[channel], value = a.projection[value_channel];
  float beta = a.projection[a.b_row + head], dt = a.projection[a.a_row + head] + dt_bias;
  u = silu(u + weight * x);
  v = silu(v + value_weight * value);
  float square = simd_sum(u * u);
  if (t.lane == 0) s.squares[t.simd] = square;
  if (t.index < part_rows) s.v[t.index] = v;
  if (t.index < dim) {
    s.q[t.index] = u;
  } else {
    s.k[t.index - dim] = u;
  }
  group_barrier();
  // The old state's products with k and q together: S' q = decay S q + error k q with S' = decay S + error k.
  // What scales them comes later than they do.
  float4 k = load4(s.k + t.lane * 4), q = load4(s.q + t.lane * 4);
  float kq = simd_sum(dot(k, q)), by_k[rows], by_q[rows];
  GPU_UNROLL for (uint r = 0; r < rows; ++r) {
    by_k[r] = dot(state[r], k);
    by_q[r] = dot(state[r], q);
    simd_sum_two(by_k[r], by_q[r], t.lane);
  }
  beta = sigmoid(beta);
  float decay = exp(rate * softplus(dt));
  float q_scale = rsqrt((s.squares[0] + s.squares[1]) + (s.squares[2] + s.squares[3]) + 1e-6f) *
                  0.08838834764831845f;  // 1 / sqrt(128)
  float k_scale = rsqrt((s.squares[4] + s.squares[5]) + (s.squares[6] + s.squares[7]) + 1e-6f);
  float y = 0.0f;
  GPU_UNROLL for (uint r = 0; r < rows; ++r) {
    float error = (s.v[t.simd * rows + r] - by_k[r] * (k_scale * decay)) * beta;
    state[r] = state[r] * decay + k * (error * k_scale);
    float row = (by_q[r] * decay + error * k_scale * kq) * q_scale;
    if (t.lane == r) y = row;
  }
  if (t.lane < rows) a.y[head * dim + part * part_rows + t.simd * rows + t.lane] = y;
  GPU_UNROLL for (uint r = 0; r < rows; ++r) store4(next + r * dim, state[r]);

  // The row's place in the window is none that another threadgroup reads now.
  out<float> kept = a.window + position % DeltaRing::window_rows * channels;
  if (part == 0 && head % per_key == 0) kept[channel] = x;
  if (t.index < part_rows) kept[value_channel] = value;
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
