// Operands of mma.m16n8k16 in a warp's registers, and what brings cached keys and values into that form.
//
// Of lane 4 g + c: the left operand has rows g and g + 8 and inputs 2 c, 2 c + 1, 2 c + 8, 2 c + 9, as words
// {row g, inputs 2 c, +1}, {row g + 8, the same}, {row g, inputs 2 c + 8, +9}, {row g + 8, the same}; the
// right one has output g and the same inputs in two words; sums are {row g, outputs 2 c, 2 c + 1}, {row g +
// 8, ..}.
#pragma once

#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/dialect/tile.h"

namespace lily::gpu::hopper {

GPU_FN float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_FN float lane_value(float x, uint lane) { return __shfl_sync(~0u, x, int(lane)); }
GPU_FN bool any_lane(bool x) { return __any_sync(~0u, x) != 0; }

// sums += left * right
GPU_FN void multiply_halves(float (&sums)[4], uint4 left, uint right_low, uint right_high) {
  // clang-format off
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
               : "r"(left.x), "r"(left.y), "r"(left.z), "r"(left.w), "r"(right_low), "r"(right_high));
  // clang-format on
}

// The left operand of 16 rows and inputs that lie in shared memory as [input][row], `ld` halves apart.
GPU_FN uint4 transposed_rows(const half* p, uint ld, uint lane) {
  Tile<half> tile;
  tile_load_transposed(tile, const_cast<half*>(p), ld, lane);
  const uint* v = reinterpret_cast<const uint*>(tile.v);
  return uint4{v[0], v[1], v[2], v[3]};
}

// Bytes of two words by number, four bits each: 0 to 3 of a, 4 to 7 of b.
GPU_FN uint choose_bytes(uint a, uint b, uint which) { return __byte_perm(a, b, which); }

// Signed codes as halves: under an exponent of 2^10, a code + 128 is 1024 more.
GPU_FN uint without_1152(uint pair) {
  const __half2 offset = as_type<__half2>(0x64806480u);
  return as_type<uint>(__hsub2(as_type<__half2>(pair), offset));
}
GPU_FN uint low_halves(uint codes) { return without_1152(choose_bytes(codes, 0x64646464u, 0x4140)); }
GPU_FN uint high_halves(uint codes) { return without_1152(choose_bytes(codes, 0x64646464u, 0x4342)); }

}  // namespace lily::gpu::hopper
