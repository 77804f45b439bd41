// The power of two that brings a row near 1, so that halves hold it.
#pragma once
#include "backend/gpu/dialect/gpu.h"

namespace lily::gpu {

// 2^floor(log2(largest)); a row of zeros, or one that is not finite, gets some power of two.
GPU_FN float row_scale(float largest) {
  return as_type<float>(as_type<uint>(min(max(largest, 1e-30f), 1e30f)) & 0x7f800000u);
}

GPU_FN float largest_of(cref<float[8]> v) {
  float largest = 0.0f;
  GPU_UNROLL for (uint i = 0; i < 8; ++i) largest = max(largest, fabs(v[i]));
  return largest;
}

// The largest of what each simdgroup left in `largest`.
GPU_FN float largest_of_group(shared<float> largest, uint simds) {
  float result = largest[0];
  for (uint i = 1; i < simds; ++i) result = max(result, largest[i]);
  return result;
}

}  // namespace lily::gpu
