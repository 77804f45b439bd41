// Where the operands of Hopper's matrix unit (wgmma) lie, as plain arithmetic that the host tests.
//
// An operand in shared memory is made of rows of 128 bytes, 64 halves, in which the 16-byte chunks are
// swizzled: chunk c of row r lies at place c ^ (r % 8). Wider operands are several such columns of rows
// ("panels") after each other; a panel begins at a multiple of 1,024 bytes.
//
// The accumulator of a warp is 16 rows of the product: value i of a lane is at accumulator_row,
// accumulator_column. A left operand in registers has the layout of mma.m16n8k16, so accumulators of 16
// neighbouring columns, rounded to halves, are one (left_part).
#pragma once

#include "backend/gpu/dialect/types.h"

#if defined(__CUDACC__)
#define LAYOUT_FN __host__ __device__ constexpr
#else
#define LAYOUT_FN constexpr
#endif

namespace lily::gpu::hopper {

constexpr uint kRowBytes = 128, kChunkBytes = 16, kRowHalves = 64;

// Byte of chunk `chunk` of row `row` of a panel.
LAYOUT_FN uint swizzled(uint row, uint chunk) { return row * kRowBytes + (chunk ^ (row & 7)) * kChunkBytes; }

// The descriptor of an operand at shared address `address`, a multiple of 16: `panel` bytes from one panel to
// the next, `rows` bytes from one group of eight rows to the next. Of an operand whose rows are its outer
// dimension (K-major) the unit takes 16 inputs at a time, 32 bytes of each row, and never reads `panel`.
LAYOUT_FN ulong descriptor(uint address, uint panel, uint rows) {
  return ulong((address & 0x3ffff) >> 4) | ulong(panel >> 4) << 16 | ulong(rows >> 4) << 32 | ulong(1) << 62;
}
LAYOUT_FN ulong outer_rows(uint address) { return descriptor(address, 16, 8 * kRowBytes); }
// Rows are inputs: 64 outputs in each panel.
LAYOUT_FN ulong inner_rows(uint address, uint panel) { return descriptor(address, panel, 8 * kRowBytes); }

LAYOUT_FN uint accumulator_row(uint lane, uint i) { return lane / 4 + (i >> 1 & 1) * 8; }
LAYOUT_FN uint accumulator_column(uint lane, uint i) { return i / 4 * 8 + lane % 4 * 2 + (i & 1); }

// Weights in shared memory, as warps find them: eight slots of 512 bytes, each the codes of a row tile's
// group of 64 inputs (dialect/weights.h), and eight slots of 256 bytes, the factors of its block. A warp
// reads its own slot; with `pairs`, warps 2 p and 2 p + 1 share slots 2 p (gate) and 2 p + 1 (up), of which
// the even warp has rows 0 to 7 of the tile and the odd one rows 8 to 15.
LAYOUT_FN uint warp_codes(uint warp, uint lane, bool pairs) {
  return pairs ? (warp & ~1u) * 512 + lane * 16 + (warp & 1) * 8 : warp * 512 + lane * 16;
}
LAYOUT_FN uint warp_factors(uint warp, uint lane, uint group, bool pairs) {
  return (pairs ? (warp & ~1u) * 256 + (warp & 1) * 4 : warp * 256) + ((lane & ~3u) + group) * 8;
}

}  // namespace lily::gpu::hopper
