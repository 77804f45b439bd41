// The matrix products on tiles, of bf16 and of 8-bit integers, against fp64, with the tiles in plain C++ and,
// where there is AMX, on it: operands of AVX-512 and tiles of AMX give the bits of plain ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/activations.hpp"
#include "backend/cpu/select.hpp"
#include "base/bf16.hpp"
#include "base/huge_buffer.hpp"
#include "kernels/random_matrix.hpp"
#include "kernels/tile_products.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

using testing::RandomMatrix;
using testing::TileProducts;

// Code, scale and bias of one weight as the contract of PackedMatrix has it.
double weight(const PackedMatrix& matrix, int row, int column) {
  const std::byte* group = matrix.data + static_cast<std::size_t>(row / kLanes) * matrix.block_bytes() +
                           static_cast<std::size_t>(column / kGroup) * matrix.group_bytes();
  const int lane = row % kLanes, c = column % kGroup;
  int code = 0;
  for (int plane = 0; plane < matrix.planes; ++plane) {
    const int byte = static_cast<int>(group[plane * 512 + c / 8 * 64 + 4 * lane + c % 8 / 2]);
    code = 16 * code + (c % 2 == 0 ? byte & 15 : byte >> 4);
  }
  std::uint16_t affine[2 * kLanes];
  std::memcpy(affine, group + matrix.planes * 512, sizeof affine);
  return static_cast<double>(bf16_to_float(affine[lane])) * code + bf16_to_float(affine[kLanes + lane]);
}

double rounded(double x) { return bf16_to_float(float_to_bf16(static_cast<float>(x))); }

class Inputs {
 public:
  Inputs(const TileProducts& products, int tokens, int columns)
      : columns_(columns), memory_(tokens + 2, columns, products.format) {
    std::mt19937 random(20261130);
    std::normal_distribution<float> normal;
    for (int t = 0; t < tokens; ++t) {
      for (int c = 0; c < columns; ++c) values_.push_back(normal(random));
      // Scattered as the routing of experts scatters them.
      rows_.push_back(memory_[t + (t % 3 == 1 ? 1 : 0) - (t % 3 == 2 ? 1 : 0)]);
      products.quantize(row(t), columns, rows_.back());
    }
  }
  const float* row(int token) const { return values_.data() + static_cast<std::ptrdiff_t>(token) * columns_; }
  const ActivationRow* data() const { return rows_.data(); }

 private:
  int columns_;
  ActivationRows memory_;
  std::vector<float> values_;
  std::vector<ActivationRow> rows_;
};

std::vector<TileProducts> all_products() {
  std::vector<TileProducts> all = testing::plain_tile_products();
  for (const TileProducts& products : testing::avx512_tile_products()) all.push_back(products);
  for (const Kernels* kernels : available_kernels()) {
    const auto add = [&](const char* name, RowFormat format) {
      all.push_back({name, format, kernels->quantize, kernels->matmul, kernels->matmul_past_cache,
                     format == RowFormat::wide ? kernels->matmul_to_halves : nullptr});
    };
    if (kernels->automatic_rows == RowFormat::bf16) add("bf16_amx", RowFormat::bf16);
    if (kernels->fast_rows == RowFormat::wide) add("wide_amx", RowFormat::wide);
  }
  return all;
}
std::vector<TileProducts> products_of(RowFormat format) {
  std::vector<TileProducts> all = all_products();
  std::erase_if(all, [&](const TileProducts& products) { return products.format != format; });
  return all;
}
std::string name_of(const ::testing::TestParamInfo<TileProducts>& tested) { return tested.param.name; }

class TileMatmul : public ::testing::TestWithParam<TileProducts> {
 protected:
  // Blocks [begin, end) of the product; -1 elsewhere.
  static std::vector<float> product(const TileProducts& products, const PackedMatrix& matrix, int begin,
                                    int end, const ActivationRow* rows, int tokens, std::ptrdiff_t stride) {
    std::vector<float> out(static_cast<std::size_t>(tokens * stride), -1);
    products.matmul(matrix, begin, end, rows, tokens, out.data(), stride);
    return out;
  }

  void expect_product(const RandomMatrix& random, int tokens) {
    const PackedMatrix& matrix = random.packed();
    SCOPED_TRACE(::testing::Message() << matrix.rows << " rows, " << matrix.groups << " groups, "
                                      << matrix.planes << " planes, " << tokens << " tokens");
    const int columns = matrix.groups * kGroup;
    const std::ptrdiff_t stride = matrix.blocks() * kLanes + 3;
    const Inputs inputs(GetParam(), tokens, columns);
    const std::vector<float> found =
        product(GetParam(), matrix, 0, matrix.blocks(), inputs.data(), tokens, stride);
    const TileProducts plain = products_of(GetParam().format).front();
    const Inputs plain_inputs(plain, tokens, columns);
    // Equal everywhere, also in what lies between the rows and must stay.
    const std::vector<float> same =
        product(plain, matrix, 0, matrix.blocks(), plain_inputs.data(), tokens, stride);
    ASSERT_EQ(found, same);
    for (int t = 0; t < tokens; t += 1 + tokens / 3) {
      for (int r = 0; r < matrix.rows; r += 1 + matrix.rows / 20) {
        SCOPED_TRACE(::testing::Message() << "token " << t << ", row " << r);
        const auto weight_of = [&](int c) { return weight(matrix, r, c); };
        const float value = found[static_cast<std::size_t>(t * stride + r)];
        ASSERT_NO_FATAL_FAILURE(GetParam().format == RowFormat::bf16
                                    ? expect_of_bf16(value, weight_of, inputs.row(t), columns)
                                    : expect_of_wide(value, weight_of, inputs.row(t), columns));
      }
    }
  }

 private:
  template <class Weight>
  static void expect_of_bf16(double value, const Weight& weight_of, const float* row, int columns) {
    double as_rounded = 0, exact = 0, magnitude = 0;
    for (int c = 0; c < columns; ++c) {
      const double w = weight_of(c), x = row[c];
      as_rounded += rounded(w) * rounded(x);
      exact += w * x;
      magnitude += std::fabs(w * x);
    }
    ASSERT_NEAR(value, as_rounded, tolerance::kSum * magnitude);
    ASSERT_NEAR(value, exact, tolerance::kBf16Product * magnitude);
  }
  template <class Weight>
  static void expect_of_wide(double value, const Weight& weight_of, const float* row, int columns) {
    double exact = 0, variance = 0;
    for (int first = 0; first < columns; first += kWideColumns) {
      const int end = std::min(columns, first + kWideColumns);
      double dw = 0, dx = 0;
      for (int c = first; c < end; ++c) {
        dw = std::max(dw, tolerance::kWideWeight * std::fabs(weight_of(c)));
        dx = std::max<double>(dx, tolerance::kWideActivation * std::fabs(row[c]));
      }
      for (int c = first; c < end; ++c) {
        const double w = weight_of(c), x = row[c];
        exact += w * x;
        variance += w * w * dx * dx + x * x * dw * dw + dw * dw * dx * dx;
      }
    }
    ASSERT_NEAR(value, exact, tolerance::kDeviations * std::sqrt(variance));
  }
};
class WideMatmul : public TileMatmul {};

TEST_P(TileMatmul, EveryShape) {
  for (const int planes : {1, 2}) {
    // A part of a block, one, a whole panel, one block more; one group, a slice of two, one more, several.
    for (const int rows : {5, 16, 32, 48, 80}) {
      for (const int groups : {1, 2, 3, 8, 19})
        expect_product(RandomMatrix(rows, groups * kGroup, planes), 17);
    }
  }
}

// What is done beside products depends on how many there are before a slice, a panel or the tokens end.
TEST_P(TileMatmul, LongerSlicesForManyTokens) {
  for (const int groups : {1, 3, 4, 5, 8, 9}) {
    for (const int tokens : {16, 33, 48, 128, 129})
      expect_product(RandomMatrix(80, groups * kGroup, 1), tokens);
  }
}

// Aligned results go past the caches, others take the usual way.
TEST_P(TileMatmul, ResultsAreTheSamePastTheCaches) {
  constexpr int kRows = 80, kColumns = 640, kTokens = 300;
  const RandomMatrix matrix(kRows, kColumns, 1);
  const Inputs inputs(GetParam(), kTokens, kColumns);
  const std::vector<float> usual = product(GetParam(), matrix.packed(), 0, 5, inputs.data(), kTokens, kRows);
  const HugeBuffer memory((usual.size() + 1) * sizeof(float), "results");
  for (const int offset : {0, 1}) {
    auto* out = reinterpret_cast<float*>(memory.data()) + offset;
    GetParam().matmul_past_cache(matrix.packed(), 0, 5, inputs.data(), kTokens, out, kRows);
    EXPECT_TRUE(std::equal(usual.begin(), usual.end(), out)) << offset;
  }
}

// Wide rows that are evenly spaced are not copied.
TEST_P(TileMatmul, RowsInPlaceAreTheSame) {
  constexpr int kTokens = 288;
  for (const int columns : {64, 256, 576}) {
    const RandomMatrix matrix(48, columns, 1);
    const Inputs inputs(GetParam(), kTokens, columns);
    ActivationRows even(kTokens, columns, GetParam().format);
    for (int t = 0; t < kTokens; ++t) GetParam().quantize(inputs.row(t), columns, even[t]);
    for (const int tokens : {16, 32, 48, 256, 288}) {
      EXPECT_EQ(product(GetParam(), matrix.packed(), 0, 3, even.data(), tokens, 48),
                product(GetParam(), matrix.packed(), 0, 3, inputs.data(), tokens, 48))
          << columns << " columns, " << tokens << " tokens";
    }
  }
}

TEST_P(TileMatmul, AnyNumberOfTokens) {
  for (const int tokens : {1, 2, 15, 16, 17, 31, 32, 33, 48, 64, 255, 256, 257, 273}) {
    expect_product(RandomMatrix(48, 64, 1), tokens);
  }
}

TEST_P(TileMatmul, ATokenDependsOnNoOther) {
  const RandomMatrix matrix(32, 1216, 1);
  const Inputs inputs(GetParam(), 300, 1216);
  const std::vector<float> all = product(GetParam(), matrix.packed(), 0, 2, inputs.data(), 300, 32);
  for (const int t : {0, 1, 40, 255, 256, 299}) {
    const std::vector<float> alone = product(GetParam(), matrix.packed(), 0, 2, inputs.data() + t, 1, 32);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), all.begin() + t * 32)) << t;
  }
}

TEST_P(TileMatmul, ARangeOfBlocksWritesOnlyItsRows) {
  const RandomMatrix matrix(96, 192, 1);
  const Inputs inputs(GetParam(), 20, 192);
  const std::vector<float> all = product(GetParam(), matrix.packed(), 0, 6, inputs.data(), 20, 96);
  for (const auto& [begin, end] : {std::pair{2, 5}, {5, 6}, {1, 3}}) {
    const std::vector<float> part = product(GetParam(), matrix.packed(), begin, end, inputs.data(), 20, 96);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const int row = static_cast<int>(i) % 96;
      ASSERT_EQ(part[i], row >= begin * kLanes && row < end * kLanes ? all[i] : -1) << i;
    }
  }
}

TEST_P(TileMatmul, AnythingNotFiniteReachesTheProduct) {
  const RandomMatrix matrix(16, 128, 1);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    ActivationRows rows(3, 128, GetParam().format);
    std::vector<float> x(128, 0.5F);
    for (int t = 0; t < 3; ++t) {
      x[77] = t == 1 ? bad : 0.5F;
      GetParam().quantize(x.data(), 128, rows[t]);
    }
    const std::vector<float> out = product(GetParam(), matrix.packed(), 0, 1, rows.data(), 3, 16);
    for (int i = 0; i < 48; ++i) {
      EXPECT_EQ(std::isfinite(out[static_cast<std::size_t>(i)]), i / 16 != 1) << bad << " at " << i;
    }
  }
}

// Weights of whole steps, and activations of them: nothing is rounded but the sums.
TEST_P(WideMatmul, WhatFitsEightBitsIsExact) {
  constexpr int kRows = 48, kColumns = 576, kTokens = 40;
  RandomMatrix matrix(kRows, kColumns, 1);
  matrix.set_affine(0.25F, -126.0F / 64);
  std::mt19937 random(7);
  ActivationRows rows(kTokens, kColumns, RowFormat::wide);
  std::vector<std::vector<float>> x(kTokens, std::vector<float>(kColumns));
  for (int t = 0; t < kTokens; ++t) {
    for (float& value : x[static_cast<std::size_t>(t)])
      value = static_cast<float>(static_cast<int>(random() % 255) - 127);
    for (int c = 5; c < kColumns; c += kWideColumns)
      x[static_cast<std::size_t>(t)][static_cast<std::size_t>(c)] = 127;
    GetParam().quantize(x[static_cast<std::size_t>(t)].data(), kColumns, rows[t]);
  }
  const std::vector<float> found = product(GetParam(), matrix.packed(), 0, 3, rows.data(), kTokens, kRows);
  for (int t = 0; t < kTokens; ++t) {
    for (int r = 0; r < kRows; ++r) {
      double exact = 0, magnitude = 0;
      for (int c = 0; c < kColumns; ++c) {
        const double term =
            weight(matrix.packed(), r, c) * x[static_cast<std::size_t>(t)][static_cast<std::size_t>(c)];
        exact += term;
        magnitude += std::fabs(term);
      }
      ASSERT_NEAR(found[static_cast<std::size_t>(t * kRows + r)], exact, tolerance::kSum * magnitude)
          << "token " << t << ", row " << r;
    }
  }
}

// Also from an odd block on, where two blocks of halves do not begin a line.
TEST_P(WideMatmul, HalvesAreTheResultsRounded) {
  constexpr int kRows = 80, kColumns = 576, kStride = 96;
  const RandomMatrix matrix(kRows, kColumns, 1);
  const Inputs inputs(GetParam(), 300, kColumns);
  for (const int tokens : {1, 16, 48, 300}) {
    for (const auto& [begin, end] : {std::pair{0, 5}, {0, 4}, {1, 5}}) {
      const std::vector<float> floats =
          product(GetParam(), matrix.packed(), begin, end, inputs.data(), tokens, kStride);
      for (const bool past_cache : {false, true}) {
        const HugeBuffer memory(floats.size() * sizeof(std::uint16_t), "results");
        auto* halves = memory.as<std::uint16_t>();
        std::fill_n(halves, floats.size(), float_to_bf16(-1));
        GetParam().matmul_to_halves(matrix.packed(), begin, end, inputs.data(), tokens, halves, kStride,
                                    past_cache);
        for (std::size_t i = 0; i < floats.size(); ++i) {
          ASSERT_EQ(halves[i], float_to_bf16(floats[i]))
              << tokens << " tokens, blocks " << begin << " to " << end << ", " << past_cache << ", at " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, TileMatmul, ::testing::ValuesIn(all_products()), name_of);
INSTANTIATE_TEST_SUITE_P(, WideMatmul, ::testing::ValuesIn(products_of(RowFormat::wide)), name_of);

// What this machine lacks is said, not left out in silence.
TEST(TileMatmulMachine, HasAmx) {
  if (available_kernels().back()->fast_rows != RowFormat::wide) {
    GTEST_SKIP() << "this machine has no AMX, or does not grant it";
  }
}

TEST(TileMatmulMachine, HasAvx512WithBf16) {
  if (testing::avx512_tile_products().size() < testing::plain_tile_products().size()) {
    GTEST_SKIP() << "this machine has no AVX-512, or none with conversions to bf16";
  }
}

}  // namespace
}  // namespace lily::cpu
