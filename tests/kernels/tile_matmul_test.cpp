// The matrix product on tiles, with the tiles in plain C++, gives the bits of the product without tiles: what
// a machine without AMX can prove about the kernel for it.
#include "backend/cpu/simd/generic.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
// The body uses Simd, so it comes after it.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/body/tile_matmul.hpp"
#include "kernels/random_matrix.hpp"

namespace lily::cpu {
namespace {

using testing::RandomMatrix;
using testing::RandomRows;

void expect_same_bits(const RandomMatrix& matrix, int begin, int end, int tokens, bool exact,
                      bool scattered) {
  const PackedMatrix& packed = matrix.packed();
  SCOPED_TRACE(::testing::Message() << packed.rows << " rows, blocks " << begin << " to " << end << ", "
                                    << packed.groups << " groups, " << packed.planes << " planes, " << tokens
                                    << " tokens, " << (exact ? "exact" : "fast")
                                    << (scattered ? ", scattered" : ""));
  const RandomRows rows(generic_kernels(), tokens, packed.groups * kGroup, exact, scattered);
  const std::ptrdiff_t stride = packed.blocks() * kLanes + 3;
  std::vector<float> expected(static_cast<std::size_t>(tokens * stride), -1), found = expected;
  generic_kernels().matmul(packed, begin, end, rows.data(), tokens, expected.data(), stride);
  tiled::matmul<PlainTiles>(packed, begin, end, rows.data(), tokens, found.data(), stride);
  // Equal everywhere, also in what lies between the rows and must stay.
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(found[i], expected[i]) << "at " << i;
}

TEST(TileMatmul, GivesTheBitsOfTheProductWithoutTiles) {
  for (const int planes : {1, 2}) {
    // A part of a block, one, a whole panel, one more, two and a part; one group, a whole slice, one more, an
    // odd number in the last slice.
    for (const int rows : {5, 16, 64, 80, 144}) {
      for (const int groups : {1, 3, 4, 5, 8, 19}) {
        const RandomMatrix matrix(rows, groups * kGroup, planes);
        for (const bool exact : {true, false}) {
          expect_same_bits(matrix, 0, matrix.packed().blocks(), 17, exact, false);
        }
      }
    }
  }
}

TEST(TileMatmul, AnyNumberOfTokens) {
  const RandomMatrix matrix(32, 128, 1);
  for (const bool exact : {true, false}) {
    for (const bool scattered : {true, false}) {
      for (const int tokens : {1, 4, 5, 8, 9, 12, 13, 16, 17, 32, 33, 255, 256, 257, 272, 530}) {
        expect_same_bits(matrix, 0, 2, tokens, exact, scattered);
      }
    }
  }
}

TEST(TileMatmul, ARangeOfBlocksWritesOnlyItsRows) {
  const RandomMatrix matrix(96, 192, 1);
  expect_same_bits(matrix, 2, 5, 20, false, false);
  expect_same_bits(matrix, 5, 6, 20, true, true);
}

// The sums of the largest codes, in their largest number, stay within 32 bits.
TEST(TileMatmul, LargestSums) {
  const RandomMatrix matrix(16, 64, 2);
  std::vector<std::byte> bytes(matrix.packed().data, matrix.packed().data + matrix.packed().bytes());
  std::fill_n(bytes.begin(), 1024, std::byte{0xff});  // all codes 255
  PackedMatrix packed = matrix.packed();
  packed.data = bytes.data();
  for (const float sign : {1.0F, -1.0F}) {
    ActivationRows rows(16, 64, true);
    const std::vector<float> x(64, sign);
    for (int t = 0; t < 16; ++t) generic_kernels().quantize(x.data(), 64, rows[t]);
    std::vector<float> expected(16 * 16), found(16 * 16);
    generic_kernels().matmul(packed, 0, 1, rows.data(), 16, expected.data(), 16);
    tiled::matmul<PlainTiles>(packed, 0, 1, rows.data(), 16, found.data(), 16);
    EXPECT_EQ(found, expected);
    EXPECT_TRUE(std::isfinite(found[0]));
  }
}

}  // namespace
}  // namespace lily::cpu
