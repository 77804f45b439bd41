// Weights and rows as numbers, read by the layouts' definitions (dialect/weights.h, dialect/weight_tile.h).
#pragma once

#include "backend/gpu/dialect/types.h"

namespace bench {

// Weight (row, input) of a matrix [row tile][block].
static __device__ double weight_at(const lily::gpu::uchar* matrix, unsigned row, unsigned input,
                                   unsigned inputs) {
  using namespace lily::gpu;
  const uint blocks = (inputs + 255) / 256, group = input % 256 / 64, k = input % 64, g = row % 8,
             high = row % 16 / 8;
  const uchar* block = matrix + (size_t(row / 16) * blocks + input / 256) * WeightBlock::bytes;
  const uint word =
      reinterpret_cast<const uint*>(block + group * 512 + (4 * g + k / 16) * 16)[high * 2 + k % 16 / 8];
  const uint factors =
      reinterpret_cast<const uint*>(block + WeightBlock::code_bytes + (4 * g + group) * 8)[high];
  const double scale = __uint_as_float(factors << 16), bias = __uint_as_float(factors & 0xffff0000u);
  return scale * (word >> (4 * (k % 8)) & 15) + bias;
}
// Input k of a row of halves.
static __device__ double input_at(const lily::gpu::half* row, unsigned k) {
  return __half2float(row[k / 64 * 64 + k % 4 * 16 + k / 8 % 2 * 8 + k / 16 % 4 * 2 + k / 4 % 2]);
}
// W x over the lanes of a warp.
static __device__ double product(const lily::gpu::uchar* matrix, unsigned row, const lily::gpu::half* x,
                                 unsigned inputs) {
  double sum = 0;
  for (unsigned k = threadIdx.x % 32; k < inputs; k += 32)
    sum += weight_at(matrix, row, k, inputs) * input_at(x, k);
  for (int m = 16; m > 0; m >>= 1) sum += __shfl_xor_sync(~0u, sum, m);
  return sum;
}

}  // namespace bench
