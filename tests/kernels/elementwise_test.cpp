// Norms, gates and the convolution against fp64.
#include <cmath>
#include <functional>

#include "base/bf16.hpp"
#include "kernels/kernel_test.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

class Elementwise : public KernelTest {};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double mean_of_squares(const std::vector<float>& x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  return sum / static_cast<double>(x.size());
}

void expect_close(const std::vector<float>& found, const std::function<double(std::size_t)>& expected) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double want = expected(i);
    ASSERT_NEAR(found[i], want, std::fabs(want) * tolerance::kElementwise + 1e-37) << i;
  }
}

// Ordinary values and the ends of the range, where gates saturate.
std::vector<float> with_extremes(std::vector<float> x) {
  const float extremes[] = {0, -0.0F, 20, -20, 80, -80, 87, -87, 500, -500, 1e4F, -1e4F, 1e-30F};
  for (std::size_t i = 0; i < std::size(extremes); ++i) x[i] = extremes[i];
  return x;
}

TEST_P(Elementwise, RmsNorm) {
  for (const std::size_t n : {16U, 128U, 2048U}) {
    const std::vector<float> x = normals(n), factor = normals(n);
    std::vector<float> out(n);
    kernels().rms_norm(x.data(), factor.data(), 1e-6F, static_cast<int>(n), out.data());
    const double scale = 1 / std::sqrt(mean_of_squares(x) + 1e-6);
    expect_close(out, [&](std::size_t i) { return x[i] * scale * factor[i]; });
  }
}

TEST_P(Elementwise, RmsNormOfZerosIsZero) {
  std::vector<float> x(64), factor(64, 1);
  kernels().rms_norm(x.data(), factor.data(), 1e-6F, 64, x.data());
  expect_close(x, [](std::size_t) { return 0.0; });
}

TEST_P(Elementwise, L2Normalize) {
  std::vector<float> x = normals(128);
  const std::vector<float> before = x;
  kernels().l2_normalize(x.data(), 1e-6F, 0.25F, 128);
  const double scale = 0.25 / std::sqrt(mean_of_squares(before) * 128 + 1e-6);
  expect_close(x, [&](std::size_t i) { return before[i] * scale; });
}

TEST_P(Elementwise, SiluMultiply) {
  const std::vector<float> gate = with_extremes(normals(64)), up = normals(64);
  std::vector<float> out(64);
  kernels().silu_multiply(gate.data(), up.data(), 64, out.data());
  // Below -87.3 the exponential is clamped: silu(-500) is -500e-38 instead of 0.
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double want = static_cast<double>(gate[i]) * sigmoid(gate[i]) * up[i];
    ASSERT_NEAR(out[i], want, std::fabs(want) * tolerance::kElementwise + 1e-33) << gate[i];
  }
}

TEST_P(Elementwise, SigmoidMultiply) {
  const std::vector<float> gate = with_extremes(normals(64)), before = normals(64);
  std::vector<float> x = before;
  kernels().sigmoid_multiply(gate.data(), 64, x.data());
  expect_close(x, [&](std::size_t i) { return before[i] * sigmoid(gate[i]); });
}

TEST_P(Elementwise, GatedRmsNorm) {
  const std::vector<float> x = normals(128), weight = normals(128), gate = normals(128);
  std::vector<float> out(128);
  kernels().gated_rms_norm(x.data(), weight.data(), gate.data(), 1e-6F, 128, out.data());
  const double scale = 1 / std::sqrt(mean_of_squares(x) + 1e-6);
  expect_close(out, [&](std::size_t i) { return x[i] * scale * weight[i] * gate[i] * sigmoid(gate[i]); });
}

TEST_P(Elementwise, NotFiniteStaysNotFinite) {
  for (const float bad : {std::nanf(""), INFINITY}) {
    std::vector<float> x = normals(64), ones(64, 1), out(64);
    x[5] = bad;
    kernels().rms_norm(x.data(), ones.data(), 1e-6F, 64, out.data());
    EXPECT_TRUE(std::isnan(out[5]));
    kernels().silu_multiply(x.data(), ones.data(), 64, out.data());
    EXPECT_FALSE(std::isfinite(out[5]));
  }
}

TEST_P(Elementwise, AddWeighted) {
  const std::vector<float> a = normals(96), b = normals(96), before = normals(96);
  std::vector<float> y = before;
  const float* rows[] = {a.data(), b.data()};
  const float weights[] = {-1.5F, 0.25F};
  kernels().add_weighted(rows, weights, 2, 96, y.data());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double first = -1.5 * static_cast<double>(a[i]), second = 0.25 * static_cast<double>(b[i]);
    const double magnitude = std::fabs(before[i]) + std::fabs(first) + std::fabs(second);
    ASSERT_NEAR(y[i], before[i] + first + second, magnitude * tolerance::kElementwise) << i;
  }
}

TEST_P(Elementwise, HalvesGiveTheBitsOfTheirFloats) {
  std::vector<std::uint16_t> halves[3];
  std::vector<float> floats[3];
  for (int i = 0; i < 3; ++i) {
    for (const float x : with_extremes(normals(96))) {
      halves[i].push_back(float_to_bf16(x));
      floats[i].push_back(bf16_to_float(halves[i].back()));
    }
  }
  std::vector<float> found(96), expected(96);
  kernels().silu_multiply_halves(halves[0].data(), halves[1].data(), 96, found.data());
  kernels().silu_multiply(floats[0].data(), floats[1].data(), 96, expected.data());
  EXPECT_EQ(found, expected);
  const std::uint16_t* half_rows[] = {halves[0].data(), halves[1].data(), halves[2].data()};
  const float* rows[] = {floats[0].data(), floats[1].data(), floats[2].data()};
  const float weights[] = {-1.5F, 0.25F, 1};
  kernels().add_weighted_halves(half_rows, weights, 3, 96, found.data());
  kernels().add_weighted(rows, weights, 3, 96, expected.data());
  EXPECT_EQ(found, expected);
}

TEST_P(Elementwise, ConvolveTakesTheOldestTapFirst) {
  const int channels = 48;
  const std::vector<float> weights = normals(4 * channels), inputs = normals(4 * channels);
  const float* rows[4];
  for (int m = 0; m < 4; ++m) rows[m] = inputs.data() + static_cast<std::ptrdiff_t>(m) * channels;
  std::vector<float> out(channels);
  kernels().convolve(rows, 0, weights.data(), channels, 4, channels, out.data());
  for (std::size_t c = 0; c < out.size(); ++c) {
    double sum = 0, magnitude = 0;
    for (std::size_t m = 0; m < 4; ++m) {
      const double product = static_cast<double>(weights[m * channels + c]) * inputs[m * channels + c];
      sum += product;
      magnitude += std::fabs(product);
    }
    ASSERT_NEAR(out[c], sum * sigmoid(sum), magnitude * tolerance::kElementwise) << c;
  }
}

LILY_FOR_ALL_INSTRUCTION_SETS(Elementwise);

}  // namespace
}  // namespace lily::cpu
