// Rows as halves: the formulas, magnitudes from 1e-6 to 1e5, and what is not finite.
#include <cmath>

#include "backend/reference/scalar.hpp"
#include "gpu/device_test.hpp"
#include "gpu/half_rows.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

constexpr float kEps = 1e-6F;

class RowsTest : public DeviceTest {
 protected:
  // Rows of magnitudes 1e5, 1e-6, 1 and, all of it, 0.
  std::vector<float> rows(std::size_t width) {
    std::vector<float> x;
    for (const float size : {1e5F, 1e-6F, 1.0F, 0.0F}) {
      const auto row = uniforms(width, -size, size);
      x.insert(x.end(), row.begin(), row.end());
    }
    return x;
  }

  static void expect_row(std::span<const half> row, float scale, std::span<const double> expected) {
    const auto found = in_order(row);
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::fabs(value));
    int exponent = 0;
    ASSERT_EQ(std::frexp(scale, &exponent), 0.5F) << "a power of two";
    if (largest > 1e-20) {
      ASSERT_GE(largest / static_cast<double>(scale), 0.999);
      ASSERT_LE(largest / static_cast<double>(scale), 2.001);
    }
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(
          found[i] * static_cast<double>(scale), expected[i],
          tolerance::kHalf * std::fabs(expected[i]) + tolerance::kSubnormalHalf * static_cast<double>(scale))
          << i;
    }
  }
};

TEST_P(RowsTest, NormRowsFollowTheFormula) {
  for (const uint inputs : {64U, 128U, 2048U, 4096U}) {
    const std::vector<float> x = rows(inputs), factor = uniforms(inputs, 0.5F, 1.5F);
    half* y = room<half>(x.size());
    float* scale = room<float>(4);
    run(NormRows{upload(x), upload(factor), y, scale, inputs, kEps}, {1, 4});
    const auto found = download(y, x.size());
    const auto scales = download(scale, 4);
    for (std::size_t token = 0; token < 4; ++token) {
      const auto row = std::span(x).subspan(token * inputs, inputs);
      double sum = 0;
      for (const float value : row) sum += static_cast<double>(value) * value;
      std::vector<double> expected;
      for (std::size_t i = 0; i < inputs; ++i) {
        expected.push_back(row[i] / std::sqrt(sum / inputs + static_cast<double>(kEps)) * factor[i]);
      }
      expect_row(std::span(found).subspan(token * inputs, inputs), scales[token], expected);
    }
  }
}

TEST_P(RowsTest, GatedNormRowsFollowTheFormula) {
  constexpr uint kHead = GatedNormRows::head;
  for (const uint heads : {1U, 8U, 32U}) {
    const uint inputs = heads * kHead, stride = inputs + 64;
    const std::vector<float> o = rows(inputs), z = uniforms(std::size_t{4} * stride, -4, 4);
    const std::vector<float> norm = uniforms(kHead, 0.5F, 1.5F);
    half* y = room<half>(o.size());
    float* scale = room<float>(4);
    run(GatedNormRows{upload(o), upload(z), upload(norm), y, scale, inputs, stride, kEps}, {1, 4});
    const auto found = download(y, o.size());
    const auto scales = download(scale, 4);
    for (std::size_t token = 0; token < 4; ++token) {
      std::vector<double> expected;
      for (uint head = 0; head < heads; ++head) {
        const auto row = std::span(o).subspan(token * inputs + head * kHead, kHead);
        double sum = 0;
        for (const float value : row) sum += static_cast<double>(value) * value;
        for (std::size_t i = 0; i < kHead; ++i) {
          expected.push_back(row[i] / std::sqrt(sum / kHead + static_cast<double>(kEps)) * norm[i] *
                             reference::silu(z[token * stride + head * kHead + i]));
        }
      }
      expect_row(std::span(found).subspan(token * inputs, inputs), scales[token], expected);
    }
  }
}

TEST_P(RowsTest, HalfRowsKeepTheirValues) {
  for (const uint inputs : {64U, 512U, 4096U}) {
    const std::vector<float> x = rows(inputs);
    half* y = room<half>(x.size());
    float* scale = room<float>(4);
    run(HalfRows{upload(x), y, scale, 4, inputs}, {1});
    const auto found = download(y, x.size());
    const auto scales = download(scale, 4);
    for (std::size_t token = 0; token < 4; ++token) {
      const auto row = std::span(x).subspan(token * inputs, inputs);
      expect_row(std::span(found).subspan(token * inputs, inputs), scales[token],
                 std::vector<double>(row.begin(), row.end()));
    }
  }
}

// What is not finite stays so and does not become a number.
TEST_P(RowsTest, WhatIsNotFiniteStaysNotFinite) {
  std::vector<float> x = uniforms(128, -1, 1);
  x[5] = NAN;
  x[64 + 7] = INFINITY;
  half* y = room<half>(128);
  float* scale = room<float>(2);
  run(HalfRows{upload(x), y, scale, 2, 64}, {1});
  const auto found = download(y, 128);
  const auto scales = download(scale, 2);
  EXPECT_TRUE(std::isnan(in_order(std::span(found).first(64))[5] * static_cast<double>(scales[0])));
  EXPECT_FALSE(std::isfinite(in_order(std::span(found).last(64))[7] * static_cast<double>(scales[1])));
}

LILY_FOR_ALL_DEVICES(RowsTest);

}  // namespace
}  // namespace lily::gpu
