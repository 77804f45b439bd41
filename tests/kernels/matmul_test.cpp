// Quantized activations and packed codes against fp64 over the same codes.
#include <algorithm>
#include <cmath>
#include <span>

#include "backend/cpu/activations.hpp"
#include "backend/cpu/packed_matrix.hpp"
#include "base/bf16.hpp"
#include "base/huge_buffer.hpp"
#include "kernels/kernel_test.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

// Column c of a row lies here in chunk order.
int chunk_position(int column) { return column / 8 * 8 + (column % 2) * 4 + column % 8 / 2; }

double dequantized(const ActivationRow& row, int column) {
  const int at = chunk_position(column);
  const int code = row.low == nullptr ? row.high[at] : row.high[at] * 256 + row.low[at];
  return static_cast<double>(row.scales[column / kGroup]) * code;
}

// An affine matrix as a checkpoint stores it, and its packed form.
struct TestMatrix {
  int rows, columns, bits, group_size, planes;
  std::vector<std::uint32_t> codes;
  std::vector<std::uint16_t> scales, biases;
  std::vector<std::byte> packed_bytes;
  PackedMatrix packed;

  // Of the weight itself, and of the two terms that cancel in it.
  struct Weight {
    double value, magnitude;
  };
  Weight weight(int row, int column) const {
    const int per_word = 32 / bits;
    const std::uint32_t word = codes[static_cast<std::size_t>(row * columns / per_word + column / per_word)];
    const std::uint32_t code = (word >> (bits * (column % per_word))) & ((1U << bits) - 1);
    const auto group = static_cast<std::size_t>(row * (columns / group_size) + column / group_size);
    const double product = static_cast<double>(bf16_to_float(scales[group])) * code;
    const double bias = bf16_to_float(biases[group]);
    return {product + bias, std::fabs(product) + std::fabs(bias)};
  }
};

class Matmul : public KernelTest {
 protected:
  TestMatrix matrix(int rows, int columns, int bits, int group_size = 64, int planes = 0) {
    TestMatrix m{rows, columns, bits, group_size, planes == 0 ? bits / 4 : planes, {}, {}, {}, {}, {}};
    const int words = columns * bits / 32, scales = columns / group_size;
    for (int i = 0; i < rows * words; ++i) m.codes.push_back(random_bits());
    for (int i = 0; i < rows * scales; ++i) {
      const float scale = 0.02F * normal();  // of either sign, as real checkpoints have
      m.scales.push_back(float_to_bf16(scale));
      m.biases.push_back(float_to_bf16(-7.5F * scale + 0.01F * normal()));
    }
    m.packed = {nullptr, rows, columns / kGroup, m.planes};
    m.packed_bytes.resize(m.packed.bytes());
    for (int block = 0; block < m.packed.blocks(); ++block) {
      const auto rows_of = [&](const auto& values, int row_values) {
        const auto all = std::as_bytes(std::span(values));
        const std::size_t stride = static_cast<std::size_t>(row_values) * sizeof(values[0]);
        const int first = block * kLanes;
        return StoredRows{all.data() + static_cast<std::size_t>(first) * stride, stride,
                          std::min(kLanes, rows - first), m.packed.groups};
      };
      std::byte* const out = m.packed_bytes.data() + static_cast<std::size_t>(block) * m.packed.block_bytes();
      pack_codes(rows_of(m.codes, words), bits, m.planes, out);
      pack_factors(rows_of(m.scales, scales), Factor::scale, group_size, m.planes, out);
      pack_factors(rows_of(m.biases, scales), Factor::bias, group_size, m.planes, out);
    }
    m.packed.data = m.packed_bytes.data();
    return m;
  }

  void expect_product(const TestMatrix& m, int tokens, bool exact) {
    SCOPED_TRACE(testing::Message() << m.rows << " x " << m.columns << ", " << m.bits << " bits, " << m.planes
                                    << " planes, " << tokens << " tokens, " << (exact ? "exact" : "fast"));
    ActivationRows rows(tokens, m.columns, exact);
    for (int t = 0; t < tokens; ++t) {
      const std::vector<float> x = normals(static_cast<std::size_t>(m.columns));
      kernels().quantize(x.data(), m.columns, rows[t]);
    }
    const int stride = m.packed.blocks() * kLanes;
    std::vector<float> out(static_cast<std::size_t>(tokens * stride), NAN);
    kernels().matmul(m.packed, 0, m.packed.blocks(), rows.data(), tokens, out.data(), stride);
    for (int t = 0; t < tokens; ++t) {
      for (int r = 0; r < m.rows; ++r) {
        double expected = 0, magnitude = 0;
        for (int c = 0; c < m.columns; ++c) {
          const TestMatrix::Weight weight = m.weight(r, c);
          const double x = dequantized(rows[t], c);
          expected += weight.value * x;
          magnitude += weight.magnitude * std::fabs(x);
        }
        ASSERT_NEAR(out[static_cast<std::size_t>(t * stride + r)], expected, tolerance::kSum * magnitude)
            << "token " << t << ", row " << r;
      }
    }
  }
};

TEST_P(Matmul, EveryTileSizeAndItsNeighbours) {
  const TestMatrix m = matrix(80, 128, 4);  // five blocks: two wide tiles and a narrow one
  for (const bool exact : {true, false}) {
    for (const int tokens : {1, 2, 3, 4, 5, 6, 7, 12, 13, 64}) expect_product(m, tokens, exact);
  }
}

TEST_P(Matmul, RowsThatDoNotFillABlock) {
  for (const int rows : {1, 15, 16, 17, 33}) {
    const TestMatrix m = matrix(rows, 64, 4);
    expect_product(m, 1, true);
    expect_product(m, 7, false);
  }
}

TEST_P(Matmul, EightBitsAndMixedPlanes) {
  for (const bool exact : {true, false}) {
    expect_product(matrix(33, 192, 8), 5, exact);
    expect_product(matrix(33, 192, 4, 64, 2), 5, exact);
    expect_product(matrix(16, 2048, 8), 1, exact);
  }
}

TEST_P(Matmul, GroupsOf128) { expect_product(matrix(20, 256, 4, 128), 4, true); }

TEST_P(Matmul, LongRowsAtTheLargestCodes) {
  TestMatrix m = matrix(16, 4096, 4);
  std::fill(m.packed_bytes.begin(), m.packed_bytes.end(), std::byte{0xff});  // all codes 15, scales NaN
  for (int g = 0; g < m.packed.groups; ++g) {
    auto* affine = reinterpret_cast<std::uint16_t*>(
        m.packed_bytes.data() + static_cast<std::size_t>(g) * m.packed.group_bytes() + 512);
    std::fill_n(affine, kLanes, float_to_bf16(1));
    std::fill_n(affine + kLanes, kLanes, float_to_bf16(0));
  }
  for (const bool exact : {true, false}) {
    for (const float sign : {1.0F, -1.0F}) {
      ActivationRows rows(1, 4096, exact);
      const std::vector<float> x(4096, sign);
      kernels().quantize(x.data(), 4096, rows[0]);
      float out[kLanes];
      kernels().matmul(m.packed, 0, 1, rows.data(), 1, out, 0);
      for (const float value : out) EXPECT_NEAR(value, sign * 15 * 4096, 15 * 4096 * tolerance::kSum);
    }
  }
}

TEST_P(Matmul, ABlockRangeWritesOnlyItsRows) {
  const TestMatrix m = matrix(96, 64, 4);
  ActivationRows rows(1, 64, true);
  const std::vector<float> x = normals(64);
  kernels().quantize(x.data(), 64, rows[0]);
  std::vector<float> all(96), part(96, -1);
  kernels().matmul(m.packed, 0, 6, rows.data(), 1, all.data(), 0);
  kernels().matmul(m.packed, 2, 5, rows.data(), 1, part.data(), 0);
  for (int r = 0; r < 96; ++r) {
    const auto i = static_cast<std::size_t>(r);
    EXPECT_EQ(part[i], r >= 32 && r < 80 ? all[i] : -1) << r;
  }
}

TEST_P(Matmul, TokensDoNotDependOnTheirNeighbours) {
  const TestMatrix m = matrix(48, 256, 4);
  for (const bool exact : {true, false}) {
    ActivationRows rows(13, 256, exact);
    for (int t = 0; t < 13; ++t) kernels().quantize(normals(256).data(), 256, rows[t]);
    std::vector<float> together(13 * 48), alone(48);
    kernels().matmul(m.packed, 0, 3, rows.data(), 13, together.data(), 48);
    for (int t = 0; t < 13; ++t) {
      kernels().matmul(m.packed, 0, 3, rows.data() + t, 1, alone.data(), 0);
      for (int r = 0; r < 48; ++r) {
        ASSERT_EQ(alone[static_cast<std::size_t>(r)], together[static_cast<std::size_t>(t * 48 + r)]);
      }
    }
  }
}

// Aligned results go past the caches, others take the usual way.
TEST_P(Matmul, ResultsAreTheSamePastTheCaches) {
  if (kernels().matmul_past_cache == nullptr) GTEST_SKIP() << "this instruction set cannot write past them";
  for (const int bits : {4, 8}) {
    const TestMatrix m = matrix(80, 256, bits);
    ActivationRows rows(13, 256, false);
    for (int t = 0; t < 13; ++t) kernels().quantize(normals(256).data(), 256, rows[t]);
    std::vector<float> usual(13 * 80);
    kernels().matmul(m.packed, 0, 5, rows.data(), 13, usual.data(), 80);
    const HugeBuffer memory((usual.size() + 1) * sizeof(float), "results");
    for (const int offset : {0, 1}) {
      auto* out = reinterpret_cast<float*>(memory.data()) + offset;
      kernels().matmul_past_cache(m.packed, 0, 5, rows.data(), 13, out, 80);
      EXPECT_TRUE(std::equal(usual.begin(), usual.end(), out)) << bits << " bits, " << offset;
    }
  }
}

class Quantize : public Matmul {};

TEST_P(Quantize, StaysWithinHalfAStep) {
  for (const bool exact : {true, false}) {
    ActivationRows rows(1, 256, exact);
    std::vector<float> x = normals(256);
    for (int i = 64; i < 128; ++i)
      x[static_cast<std::size_t>(i)] *= 1e5F;  // rows of trained models reach this
    for (int i = 128; i < 192; ++i) x[static_cast<std::size_t>(i)] *= 1e-6F;
    for (int i = 192; i < 256; ++i) x[static_cast<std::size_t>(i)] = 0;
    kernels().quantize(x.data(), 256, rows[0]);
    for (int g = 0; g < 4; ++g) {
      double largest = 0, sum = 0;
      for (int c = g * kGroup; c < (g + 1) * kGroup; ++c) {
        largest = std::max(largest, std::fabs(static_cast<double>(x[static_cast<std::size_t>(c)])));
        sum += dequantized(rows[0], c);
      }
      const double step = (exact ? tolerance::kTwoTerms : tolerance::kOneTerm) * largest;
      for (int c = g * kGroup; c < (g + 1) * kGroup; ++c) {
        EXPECT_NEAR(dequantized(rows[0], c), x[static_cast<std::size_t>(c)], step) << c;
      }
      EXPECT_NEAR(rows[0].sums[g], sum, 64 * largest * tolerance::kElementwise);
    }
  }
}

TEST_P(Quantize, AnythingNotFiniteReachesTheProduct) {
  const TestMatrix m = matrix(16, 128, 4);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    for (const bool exact : {true, false}) {
      ActivationRows rows(1, 128, exact);
      std::vector<float> x = normals(128);
      x[77] = bad;
      kernels().quantize(x.data(), 128, rows[0]);
      float out[kLanes];
      kernels().matmul(m.packed, 0, 1, rows.data(), 1, out, 0);
      for (const float value : out) EXPECT_FALSE(std::isfinite(value)) << bad;
    }
  }
}

LILY_FOR_ALL_INSTRUCTION_SETS(Matmul);
LILY_FOR_ALL_INSTRUCTION_SETS(Quantize);

}  // namespace
}  // namespace lily::cpu
