// Rows as halves for the matrix tiles.
#pragma once
#include "backend/gpu/dialect/weight_tile.h"
#include "backend/gpu/kernels/args/rows.h"
#include "backend/gpu/kernels/products.h"

using namespace lily::gpu;

namespace lily::gpu {

GPU_FN void store_scaled(out<half> row, uint e, cref<float[8]> v, float factor) {
  float scaled[8];
  GPU_UNROLL for (uint i = 0; i < 8; ++i) scaled[i] = v[i] * factor;
  store_places((out<uint>)row, e, scaled);
}

}  // namespace lily::gpu

GPU_KERNEL(NormRows) {
  const uint rounds = NormRows::max_inputs / 8 / NormRows::threads, simds = NormRows::threads / 32;
  allow_next();
  wait_for_previous();
  in<float> x = a.x + ulong(t.group.y) * a.inputs;
  float v[rounds][8], sum = 0.0f, largest = 0.0f;
  GPU_UNROLL for (uint r = 0; r < rounds; ++r) {
    uint e = r * NormRows::threads + t.index;
    float f[8];
    load_inputs(x, a.inputs, e, v[r]);
    load_inputs(a.factor, a.inputs, e, f);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      sum += v[r][i] * v[r][i];
      v[r][i] *= f[i];
    }
    largest = max(largest, largest_of(v[r]));
  }
  sum = simd_sum(sum);
  largest = simd_max(largest);
  if (t.lane == 0) {
    s.squares[t.simd] = sum;
    s.largest[t.simd] = largest;
  }
  group_barrier();
  float norm = inverse_rms(s.squares, simds, a.inputs, a.eps);
  float scale = row_scale(largest_of_group(s.largest, simds) * norm);
  out<half> y = a.y + ulong(t.group.y) * a.inputs;
  GPU_UNROLL for (uint r = 0; r < rounds; ++r) {
    uint e = r * NormRows::threads + t.index;
    if (e * 8 < a.inputs) store_scaled(y, e, v[r], norm / scale);
  }
  if (t.index == 0) a.scale[t.group.y] = scale;
}

GPU_KERNEL(GatedNormRows) {
  const uint rounds = GatedNormRows::max_inputs / 8 / GatedNormRows::threads,
             simds = GatedNormRows::threads / 32;
  allow_next();
  wait_for_previous();
  float v[rounds][8], largest = 0.0f;
  GPU_UNROLL for (uint r = 0; r < rounds; ++r) {
    uint e = r * GatedNormRows::threads + t.index;
    float z[8], weight[8], sum = 0.0f;
    load_inputs(a.o + ulong(t.group.y) * a.inputs, a.inputs, e, v[r]);
    load_inputs(a.z + ulong(t.group.y) * a.z_stride, a.inputs, e, z);
    load_inputs(a.norm, GatedNormRows::head, e & 15, weight);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) sum += v[r][i] * v[r][i];
    GPU_UNROLL for (uint mask = 1; mask < 16; mask <<= 1) {
      sum += simd_shuffle_xor(sum, mask);  // 16 lanes a head
    }
    float norm = rsqrt(sum / float(GatedNormRows::head) + a.eps);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) v[r][i] = v[r][i] * norm * weight[i] * silu(z[i]);
    largest = max(largest, largest_of(v[r]));
  }
  largest = simd_max(largest);
  if (t.lane == 0) s.largest[t.simd] = largest;
  group_barrier();
  float scale = row_scale(largest_of_group(s.largest, simds));
  out<half> y = a.y + ulong(t.group.y) * a.inputs;
  GPU_UNROLL for (uint r = 0; r < rounds; ++r) {
    uint e = r * GatedNormRows::threads + t.index;
    if (e * 8 < a.inputs) store_scaled(y, e, v[r], 1.0f / scale);
  }
  if (t.index == 0) a.scale[t.group.y] = scale;
}

GPU_KERNEL(HalfRows) {
  allow_next();
  wait_for_previous();
  uint row = t.group.x * (HalfRows::threads / 32) + t.simd;
  if (row >= a.rows) return;  // a whole simdgroup
  in<float> x = a.x + ulong(row) * a.inputs;
  float v[8], largest = 0.0f;
  for (uint e = t.lane; e < a.inputs / 8; e += 32) {
    load_inputs(x, a.inputs, e, v);
    largest = max(largest, largest_of(v));
  }
  float scale = row_scale(simd_max(largest));
  for (uint e = t.lane; e < a.inputs / 8; e += 32) {
    load_inputs(x, a.inputs, e, v);
    store_scaled(a.y + ulong(row) * a.inputs, e, v, 1.0f / scale);
  }
  if (t.lane == 0) a.scale[row] = scale;
}
