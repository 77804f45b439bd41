// Matrix tiles of 16 x 16: halves multiplied, floats summed, on the machine's matrix unit.
//
// A tile is a row-major matrix of which each lane holds 8 values; which 8 is the machine's affair:
//
//   tile_row(lane, i), tile_col(lane, i)   place of tile.v[i]
//   tile_load(a, p, ld, lane)              left operand: 16 rows at p, ld values apart, in threadgroup memory
//   tile_load_transposed(a, p, ld, lane)   the same, stored [column][row]
//   tile_load_right(b, p, ld, lane)        right operand, stored the same way: [output][input]
//   tile_load_right_transposed(b, p, ld, lane)   the same, stored [input][output]
//   tile_mma(c0, c1, a, b0, b1)            c0 += a * transpose(b0), c1 += a * transpose(b1)
//
// All lanes of a simdgroup call these together. What is loaded is aligned to 16 bytes and ld is a multiple of
// 8. Values beyond 65,504 overflow a half, so a kernel scales its
// rows by a power of two before it rounds them.
#pragma once

#include "backend/gpu/dialect/gpu.h"

namespace lily::gpu {

template <class T>
struct Tile {
  T v[8];
};

GPU_FN void tile_zero(ref<Tile<float>> c) { GPU_UNROLL for (uint i = 0; i < 8; ++i) c.v[i] = 0.0f; }

#if defined(__METAL_VERSION__) && defined(GPU_TENSOR_OPS)
// Tensor operations of Metal 4 on one simdgroup, 16 x 32 x 16. The layout of its cooperative tensors is not
// documented; the host probes it before it selects this branch.
GPU_FN uint tile_row(uint lane, uint i) { return ((lane >> 2 & 4) | (lane >> 1 & 3)) + (i >> 2) * 8; }
GPU_FN uint tile_col(uint lane, uint i) { return ((lane >> 2 & 2) | (lane & 1)) * 4 + (i & 3); }
GPU_FN void tile_mma(ref<Tile<float>> c0, ref<Tile<float>> c1, cref<Tile<half>> a, cref<Tile<half>> b0,
                     cref<Tile<half>> b1) {
  constexpr auto kind = mpp::tensor_ops::matmul2d_descriptor(
      16, 32, 16, false, true, true, mpp::tensor_ops::matmul2d_descriptor::mode::multiply_accumulate);
  mpp::tensor_ops::matmul2d<kind, execution_simdgroup> product;
  auto left = product.template get_left_input_cooperative_tensor<half, half, float>();
  auto right = product.template get_right_input_cooperative_tensor<half, half, float>();
  auto sum =
      product.template get_destination_cooperative_tensor<remove_addrspace_t<decltype(left)>,
                                                          remove_addrspace_t<decltype(right)>, float>();
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    left[i] = a.v[i];
    right[i] = b0.v[i];
    right[8 + i] = b1.v[i];
    sum[i] = c0.v[i];
    sum[8 + i] = c1.v[i];
  }
  product.run(left, right, sum);
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    c0.v[i] = sum[i];
    c1.v[i] = sum[8 + i];
  }
}

#elif defined(__METAL_VERSION__)
// simdgroup_matrix, 8 x 8: a tile is four of them, two values of each per lane.
GPU_FN uint tile_row(uint lane, uint i) { return (lane >> 2 & 4) + (lane >> 1 & 3) + (i >> 2) * 8; }
GPU_FN uint tile_col(uint lane, uint i) {
  return (lane >> 2 & 2) * 2 + (lane & 1) * 2 + (i & 1) + (i >> 1 & 1) * 8;
}
GPU_FN void tile_mma(ref<Tile<float>> c, cref<Tile<half>> a, cref<Tile<half>> b) {
  GPU_UNROLL for (uint m = 0; m < 2; ++m) GPU_UNROLL for (uint n = 0; n < 2; ++n) {
    simdgroup_matrix<float, 8, 8> sum;
    sum.thread_elements()[0] = c.v[m * 4 + n * 2];
    sum.thread_elements()[1] = c.v[m * 4 + n * 2 + 1];
    GPU_UNROLL for (uint k = 0; k < 2; ++k) {
      simdgroup_matrix<half, 8, 8> x, y;
      x.thread_elements()[0] = a.v[m * 4 + k * 2];
      x.thread_elements()[1] = a.v[m * 4 + k * 2 + 1];
      y.thread_elements()[0] = b.v[n * 4 + k * 2];
      y.thread_elements()[1] = b.v[n * 4 + k * 2 + 1];
      simdgroup_multiply_accumulate(sum, x, y, sum);
    }
    c.v[m * 4 + n * 2] = sum.thread_elements()[0];
    c.v[m * 4 + n * 2 + 1] = sum.thread_elements()[1];
  }
}
GPU_FN void tile_mma(ref<Tile<float>> c0, ref<Tile<float>> c1, cref<Tile<half>> a, cref<Tile<half>> b0,
                     cref<Tile<half>> b1) {
  tile_mma(c0, a, b0);
  tile_mma(c1, a, b1);
}

#elif defined(__CUDACC__)
// mma.sync m16n8k16: one layout serves a, b and c.
GPU_FN uint tile_row(uint lane, uint i) { return (lane >> 2) + (i >> 1 & 1) * 8; }
GPU_FN uint tile_col(uint lane, uint i) { return (lane & 3) * 2 + (i & 1) + (i >> 2) * 8; }
GPU_FN void tile_mma(ref<Tile<float>> c, cref<Tile<half>> a, cref<Tile<half>> b) {
  const uint *x = reinterpret_cast<const uint*>(a.v), *y = reinterpret_cast<const uint*>(b.v);
  // clang-format off
  GPU_UNROLL for (uint n = 0; n < 2; ++n) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c.v[n * 4]), "+f"(c.v[n * 4 + 1]), "+f"(c.v[n * 4 + 2]), "+f"(c.v[n * 4 + 3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[n]), "r"(y[2 + n]));
  }
  // clang-format on
}
GPU_FN void tile_mma(ref<Tile<float>> c0, ref<Tile<float>> c1, cref<Tile<half>> a, cref<Tile<half>> b0,
                     cref<Tile<half>> b1) {
  tile_mma(c0, a, b0);
  tile_mma(c1, a, b1);
}

#else
// The emulator's layout is like no machine's, so that no kernel can lean on one.
GPU_FN uint tile_row(uint lane, uint i) { return (lane * 5 + (i & 1) * 8) & 15; }
GPU_FN uint tile_col(uint lane, uint i) { return ((lane >> 4) * 8 + (i ^ 3)) & 15; }
template <class Matrix>
void tile_spread(const emulator::Lanes<Tile<half>>& lanes, Matrix& matrix, uint first_row) {
  for (uint lane = 0; lane < 32; ++lane) {
    const Tile<half> part = lanes[lane];
    for (uint i = 0; i < 8; ++i) {
      matrix[first_row + tile_row(lane, i)][tile_col(lane, i)] = static_cast<float>(part.v[i]);
    }
  }
}
inline void tile_multiply(emulator::Simdgroup& simdgroup) {
  for (uint row = 0; row < 16; ++row) {
    for (uint column = 0; column < 32; ++column) {
      float sum = 0;
      for (uint k = 0; k < 16; ++k) sum += simdgroup.left[row][k] * simdgroup.right[column][k];
      simdgroup.product[row][column] = sum;
    }
  }
}
// One lane multiplies for all.
GPU_FN void tile_mma(ref<Tile<float>> c0, ref<Tile<float>> c1, cref<Tile<half>> a, cref<Tile<half>> b0,
                     cref<Tile<half>> b1, GPU_AT) {
  emulator::work_for_all(a, at, [](const auto& lanes, auto& all) { tile_spread(lanes, all.left, 0); });
  emulator::work_for_all(b0, at, [](const auto& lanes, auto& all) { tile_spread(lanes, all.right, 0); });
  const auto& all = emulator::work_for_all(b1, at, [](const auto& lanes, auto& simdgroup) {
    tile_spread(lanes, simdgroup.right, 16);
    tile_multiply(simdgroup);
  });
  for (uint i = 0; i < 8; ++i) {
    const uint row = tile_row(emulator::lane(), i), column = tile_col(emulator::lane(), i);
    c0.v[i] += all.product[row][column];
    c1.v[i] += all.product[row][column + 16];
  }
}
#endif

#if defined(__CUDACC__)
// Four 8 x 8 matrices at once, of which lane l gives the address of row l % 8 of matrix l / 8.
GPU_FN void tile_load(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  uint* v = reinterpret_cast<uint*>(tile.v);
  uint from = uint(__cvta_generic_to_shared(p + (lane & 15) * ld + (lane >> 4) * 8));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
}
GPU_FN void tile_load_right(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  tile_load(tile, p, ld, lane);
}
GPU_FN void tile_load_transposed(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  uint* v = reinterpret_cast<uint*>(tile.v);
  uint from = uint(__cvta_generic_to_shared(p + ((lane & 7) + (lane >> 4) * 8) * ld + (lane >> 3 & 1) * 8));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
}
GPU_FN void tile_load_right_transposed(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  tile_load_transposed(tile, p, ld, lane);
}
#else
GPU_FN void tile_load(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
#if !defined(__METAL_VERSION__)
  emulator::check_aligned(p, 16);
  if (ld % 8 != 0) emulator::fault("a tile's rows are not aligned");
#endif
  GPU_UNROLL for (uint i = 0; i < 8; ++i) tile.v[i] = p[tile_row(lane, i) * ld + tile_col(lane, i)];
}
GPU_FN void tile_load_transposed(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  GPU_UNROLL for (uint i = 0; i < 8; ++i) tile.v[i] = p[tile_col(lane, i) * ld + tile_row(lane, i)];
}
#if defined(__METAL_VERSION__) && !defined(GPU_TENSOR_OPS)
// simdgroup_matrix multiplies without transposing: value i belongs to output (i >> 2) * 8 + column + (i & 1)
// and input (i >> 1 & 1) * 8 + row.
GPU_FN void tile_load_right(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  uint row = tile_row(lane, 0), column = tile_col(lane, 0);
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    tile.v[i] = p[((i >> 2) * 8 + column + (i & 1)) * ld + (i >> 1 & 1) * 8 + row];
  }
}
GPU_FN void tile_load_right_transposed(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  uint row = tile_row(lane, 0), column = tile_col(lane, 0);
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    tile.v[i] = p[((i >> 1 & 1) * 8 + row) * ld + (i >> 2) * 8 + column + (i & 1)];
  }
}
#else
GPU_FN void tile_load_right(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  tile_load(tile, p, ld, lane);
}
GPU_FN void tile_load_right_transposed(ref<Tile<half>> tile, shared<half> p, uint ld, uint lane) {
  tile_load_transposed(tile, p, ld, lane);
}
#endif
#endif

}  // namespace lily::gpu
