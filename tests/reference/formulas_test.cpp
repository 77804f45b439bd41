// The formulas of the model one by one, on inputs whose answer is known without the code under test.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backend/reference/delta_net.hpp"
#include "backend/reference/norms.hpp"
#include "backend/reference/rope.hpp"
#include "backend/reference/router.hpp"
#include "lily/error.hpp"

namespace lily::reference {
namespace {

TEST(RmsNorm, DividesByTheRootMeanSquare) {
  const std::vector<float> x = {3, -4};  // mean square 12.5
  const std::vector<float> factor = {1, 2};
  std::vector<float> y(2);
  rms_norm(x, factor, 0.0, y);
  EXPECT_FLOAT_EQ(y[0], static_cast<float>(3 / std::sqrt(12.5)));
  EXPECT_FLOAT_EQ(y[1], static_cast<float>(-8 / std::sqrt(12.5)));
}

TEST(RmsNorm, AZeroRowStaysZero) {
  const std::vector<float> x(4, 0.0F);
  const std::vector<float> factor(4, 3.0F);
  std::vector<float> y(4, 1.0F);
  rms_norm(x, factor, 1e-6, y);
  EXPECT_EQ(y, x);
}

TEST(GatedRmsNorm, TheGateIsNoPartOfTheStatistics) {
  const std::vector<double> x = {3, -4};
  const std::vector<float> weight = {1, 1};
  const std::vector<float> gate = {0, 100};  // silu: 0 and 100
  std::vector<float> y(2);
  gated_rms_norm(x, weight, gate, 0.0, y);
  EXPECT_EQ(y[0], 0.0F);
  EXPECT_FLOAT_EQ(y[1], static_cast<float>(-400 / std::sqrt(12.5)));
}

TEST(Rope, RotatesPairsHalfTheRotaryWidthApartAndNothingElse) {
  std::vector<float> head = {1, 2, 3, 4, 5, 6};  // rotary width 4: pairs (0, 2) and (1, 3)
  rotate(head, 4, 100.0, 2);
  const double slow = 2 * std::pow(100.0, -0.5);
  EXPECT_FLOAT_EQ(head[0], static_cast<float>(std::cos(2.0) - 3 * std::sin(2.0)));
  EXPECT_FLOAT_EQ(head[2], static_cast<float>(3 * std::cos(2.0) + std::sin(2.0)));
  EXPECT_FLOAT_EQ(head[1], static_cast<float>(2 * std::cos(slow) - 4 * std::sin(slow)));
  EXPECT_FLOAT_EQ(head[3], static_cast<float>(4 * std::cos(slow) + 2 * std::sin(slow)));
  EXPECT_EQ(head[4], 5);
  EXPECT_EQ(head[5], 6);
}

// At the model's last position an angle in fp32 would be off by a hundredth of a turn.
TEST(Rope, IsExactAtTheLastPosition) {
  constexpr int kPosition = 262143;
  std::vector<float> head(64, 0.0F);
  head[1] = 1;
  rotate(head, 64, 1e7, kPosition);
  const long double angle = kPosition * std::pow(1e7L, -1.0L / 32);
  EXPECT_NEAR(head[1], static_cast<double>(std::cos(angle)), 1e-6);
  EXPECT_NEAR(head[33], static_cast<double>(std::sin(angle)), 1e-6);
}

TEST(DeltaRule, ReadsAfterTheDecayAndWritesBeforeTheOutput) {
  std::vector<float> memory = {2};  // one value, one key dimension
  std::vector<double> output(1);
  // S = 0.5 * 2 = 1; e = 0.25 * (7 - 1 * 3) = 1; S = 1 + 1 * 3 = 4; o = 4 * 5
  delta_step(memory, std::vector<double>{5}, std::vector<double>{3}, std::vector<double>{7}, 0.5, 0.25,
             output);
  EXPECT_FLOAT_EQ(memory[0], 4);
  EXPECT_DOUBLE_EQ(output[0], 20);
}

// A state in 16 bits loses a slowly decaying memory; in fp32 it must not. The same recurrence in double
// beside it.
TEST(DeltaRule, StaysNearTheDoubleRecurrenceOverALongSlowDecay) {
  constexpr std::size_t kDim = 16;
  constexpr int kSteps = 20000;
  const double decay = std::exp(-1e-5);
  constexpr double kBeta = 0.9;
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  std::vector<float> memory(kDim * kDim, 0.0F);
  std::vector<double> exact(kDim * kDim, 0.0);
  std::vector<double> query(kDim), key(kDim), value(kDim), output(kDim);
  double worst = 0;
  for (int step = 0; step < kSteps; ++step) {
    double norm = 0;
    for (std::size_t i = 0; i < kDim; ++i) {
      query[i] = normal(random) / 4;
      key[i] = normal(random);
      value[i] = 50 * normal(random);
      norm += key[i] * key[i];
    }
    for (double& k : key) k /= std::sqrt(norm);
    delta_step(memory, query, key, value, decay, kBeta, output);
    double error = 0;
    double size = 0;
    for (std::size_t i = 0; i < kDim; ++i) {
      double read = 0;
      for (std::size_t j = 0; j < kDim; ++j) read += (exact[i * kDim + j] *= decay) * key[j];
      double out = 0;
      for (std::size_t j = 0; j < kDim; ++j) {
        exact[i * kDim + j] += kBeta * (value[i] - read) * key[j];
        out += exact[i * kDim + j] * query[j];
      }
      ASSERT_TRUE(std::isfinite(output[i])) << "step " << step;
      error = std::max(error, std::abs(output[i] - out));
      size = std::max(size, std::abs(out));
    }
    worst = std::max(worst, error / size);
  }
  EXPECT_LT(worst, 1e-3);
}

TEST(Router, OrdersByLogitThenById) {
  const std::vector<float> logits = {1, 3, 3, 2, 3};
  const auto choices = choose_experts(logits, 3);
  ASSERT_EQ(choices.size(), 3U);
  EXPECT_EQ(choices[0].expert, 1);
  EXPECT_EQ(choices[1].expert, 2);
  EXPECT_EQ(choices[2].expert, 4);
  for (const ExpertChoice& choice : choices) EXPECT_DOUBLE_EQ(choice.weight, 1.0 / 3);
}

TEST(Router, WeightsAreTheSoftmaxOfTheChosen) {
  std::vector<float> logits(256, -5.0F);
  logits[255] = std::log(3.0F);
  logits[17] = 0;
  const auto choices = choose_experts(logits, 2);
  EXPECT_EQ(choices[0].expert, 255);
  EXPECT_NEAR(choices[0].weight, 0.75, 1e-6);
  EXPECT_NEAR(choices[1].weight, 0.25, 1e-6);
}

TEST(Router, ANonFiniteLogitIsAnErrorEvenOutsideTheBest) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> logits(32, 1.0F);
    logits[30] = bad;
    try {
      choose_experts(logits, 8);
      FAIL() << "routed by " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::internal);
      EXPECT_NE(std::string(error.what()).find("expert 30"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lily::reference
