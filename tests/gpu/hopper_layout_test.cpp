// Where Hopper's kernels put and find operands, against a model of the matrix unit as NVIDIA documents it.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>

#include "backend/gpu/cuda/kernels/layout.h"
#include "backend/gpu/cuda/kernels/shapes.h"
#include "gpu/affine_matrix.hpp"
#include "gpu/half_rows.hpp"

namespace lily::gpu::hopper {
namespace {

// The address that the unit reads for an operand's element: 128-byte swizzle, fields of the descriptor.
uint swizzled_address(uint address) { return address ^ (address >> 3 & 0x70); }
struct Fields {
  uint start, leading, stride, swizzle;
};
Fields fields(ulong descriptor) {
  return {static_cast<uint>(descriptor & 0x3fff) << 4, static_cast<uint>(descriptor >> 16 & 0x3fff) << 4,
          static_cast<uint>(descriptor >> 32 & 0x3fff) << 4, static_cast<uint>(descriptor >> 62)};
}
// Element (outer, inner) of 16 inputs: K-major has 8 outer rows of 128 bytes per stride.
uint k_major_address(ulong descriptor, uint outer, uint input) {
  const Fields f = fields(descriptor);
  return swizzled_address(f.start + outer / 8 * f.stride + outer % 8 * 128 + input * 2);
}
// MN-major: 64 outputs in a row of 128 bytes, the next 64 at `leading`; 8 inputs per stride.
uint mn_major_address(ulong descriptor, uint output, uint input) {
  const Fields f = fields(descriptor);
  return swizzled_address(f.start + output / 64 * f.leading + input / 8 * f.stride + input % 8 * 128 +
                          output % 64 * 2);
}

TEST(HopperLayout, RowsAreWhereTheUnitReadsThem) {
  constexpr uint kRows = Multiply128::tokens, kBase = 3 * 1024;
  for (uint row = 0; row < kRows; ++row) {
    for (uint k = 0; k < kRowHalves; ++k) {
      const uint written = kBase + swizzled(row, k / 8) + k % 8 * 2;
      const ulong step = outer_rows(kBase) + k / 16 * 2;  // 32 bytes on
      EXPECT_EQ(fields(step).swizzle, 1U);
      ASSERT_EQ(k_major_address(step, row, k % 16), written) << row << " " << k;
    }
  }
}

TEST(HopperLayout, ValuesAreReadByTheirInputs) {
  constexpr uint kBase = Attention128::values_at + Attention128::tile_bytes;
  static_assert(kBase % 1024 == 0 && Attention128::tile_panel % 1024 == 0 &&
                Attention128::query_panel % 1024 == 0);
  for (uint position = 0; position < Attention128::positions; ++position) {
    for (uint d = 0; d < Attention128::dim; ++d) {
      const uint written = kBase + d / kRowHalves * Attention128::tile_panel +
                           swizzled(position, d % kRowHalves / 8) + d % 8 * 2;
      const ulong step = inner_rows(kBase + position / 16 * 16 * kRowBytes, Attention128::tile_panel);
      ASSERT_EQ(mn_major_address(step, d, position % 16), written) << position << " " << d;
    }
  }
}

// Accumulators of 16 columns, rounded to halves two by two, are the left operand of a product over these
// columns.
TEST(HopperLayout, AccumulatorsCoverTheProductAndBecomeOperands) {
  std::set<std::array<uint, 2>> places;
  for (uint lane = 0; lane < 32; ++lane) {
    for (uint i = 0; i < 64; ++i) {
      const uint row = accumulator_row(lane, i), column = accumulator_column(lane, i);
      places.insert({row, column});
      // Register i % 8 / 2 of the fragment of columns 16 (i / 8): rows g or g + 8, inputs 2 c or 2 c + 8.
      EXPECT_EQ(row, lane / 4 + i % 8 / 2 % 2 * 8);
      EXPECT_EQ(column, i / 8 * 16 + lane % 4 * 2 + i % 2 + i % 8 / 4 * 8);
    }
  }
  EXPECT_EQ(places.size(), 16U * 128U);
}

// What a lane reads of the blocks of row tiles, as the kernels copy them, is its part of the left operand.
TEST(HopperLayout, LanesFindTheirWeights) {
  const AffineMatrix matrix(8 * 16, {256, 4, 64}, 7);
  const std::vector<std::byte> blocks = matrix.packed();
  std::vector<std::byte> factors(8 * 256);
  for (uint tile = 0; tile < 8; ++tile) {
    std::memcpy(factors.data() + tile * 256,
                blocks.data() + tile * WeightBlock::bytes + WeightBlock::code_bytes, 256);
  }
  for (uint group = 0; group < 4; ++group) {
    std::vector<std::byte> codes(8 * 512);
    for (uint tile = 0; tile < 8; ++tile) {
      std::memcpy(codes.data() + tile * 512, blocks.data() + tile * WeightBlock::bytes + group * 512, 512);
    }
    for (uint warp = 0; warp < 8; ++warp) {
      for (uint lane = 0; lane < 32; ++lane) {
        for (const bool pairs : {false, true}) {
          for (uint half_tile = 0; half_tile < 2; ++half_tile) {
            // The rows of the fragment's upper and lower half.
            const uint row = pairs ? ((warp & ~1U) + half_tile) * 16 + warp % 2 * 8 + lane / 4
                                   : warp * 16 + half_tile * 8 + lane / 4;
            const uint words_at = warp_codes(warp, lane, pairs) + half_tile * (pairs ? 512 : 8);
            const uint factor_at = warp_factors(warp, lane, group, pairs) + half_tile * (pairs ? 256 : 4);
            std::array<uint, 2> words{};
            std::memcpy(words.data(), codes.data() + words_at, 8);
            uint factor = 0;
            std::memcpy(&factor, factors.data() + factor_at, 4);
            const float scale = as_type<float>(factor << 16), bias = as_type<float>(factor & 0xffff0000U);
            for (uint k = 0; k < 64; ++k) {
              // Input k has a place; the lane that holds the place's columns is the one with its codes.
              const auto place = static_cast<uint>(place_of(k)), column = place % 16;
              if (column % 8 / 2 != lane % 4) continue;
              const uint code = words[column / 8] >> (column % 2 * 16 + place / 16 * 4) & 15;
              const int r = static_cast<int>(row), input = static_cast<int>(group * 64 + k);
              ASSERT_EQ(static_cast<double>(scale) * code, matrix.code_part(r, input)) << row << " " << k;
              ASSERT_EQ(static_cast<double>(bias), matrix.bias(r, input));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace lily::gpu::hopper
