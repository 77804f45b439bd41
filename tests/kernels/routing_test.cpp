// Expert selection: order, ties, weights and logits that are not finite (cases MOE-01, MOE-02).
#include "backend/cpu/routing.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "lily/error.hpp"

namespace lily::cpu {
namespace {

TEST(Routing, TakesTheLargestInOrder) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 200; ++round) {
    std::vector<float> logits(256);
    for (float& logit : logits) logit = normal(random);
    std::vector<int> order(256);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    Route routes[8];
    select_experts(logits.data(), 256, 8, 0, routes);
    double total = 0;
    for (int i = 0; i < 8; ++i)
      total += std::exp(logits[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])]);
    for (int i = 0; i < 8; ++i) {
      const int expected = order[static_cast<std::size_t>(i)];
      EXPECT_EQ(routes[i].expert, expected);
      EXPECT_NEAR(routes[i].weight, std::exp(logits[static_cast<std::size_t>(expected)]) / total, 1e-6);
    }
  }
}

TEST(Routing, EqualLogitsGoToTheLowerExperts) {
  const std::vector<float> logits(256, 0.0F);
  Route routes[8];
  select_experts(logits.data(), 256, 8, 0, routes);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(routes[i].expert, i);
    EXPECT_FLOAT_EQ(routes[i].weight, 1.0F / 8);
  }
}

TEST(Routing, AllExpertsCanBeSelected) {
  const float logits[] = {-1, 3, 2};
  Route routes[3];
  select_experts(logits, 3, 3, 0, routes);
  EXPECT_EQ(routes[0].expert, 1);
  EXPECT_EQ(routes[1].expert, 2);
  EXPECT_EQ(routes[2].expert, 0);
}

TEST(Routing, ALogitThatIsNotFiniteIsAnError) {
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    for (const std::size_t at : {0U, 100U, 255U}) {
      std::vector<float> logits(256, 1.0F);
      logits[at] = bad;
      Route routes[8];
      try {
        select_experts(logits.data(), 256, 8, 17, routes);
        FAIL() << "accepted " << bad;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::internal);
        EXPECT_NE(std::string(error.what()).find("layer 17"), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace lily::cpu
