// Sampling: every filter, the order of the steps, reproducibility and speed at the real vocabulary.
#include "engine/sampler.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "lily/error.hpp"
#include "support/raises.hpp"

namespace lily::engine {
namespace {

TokenRanges all(std::size_t count) {
  return {static_cast<TokenId>(count), [](TokenId) { return true; }};
}

bool never(TokenId) { return false; }

Sampler sampler(const SamplingSettings& settings, std::size_t vocabulary) {
  return {settings, all(vocabulary), {}, never};
}

// The distinct tokens of many draws from the same logits.
std::set<TokenId> drawn(const SamplingSettings& settings, const std::vector<float>& logits,
                        int draws = 2000) {
  Sampler chooser = sampler(settings, logits.size());
  std::set<TokenId> tokens;
  for (int i = 0; i < draws; ++i) {
    std::vector<float> row = logits;
    tokens.insert(chooser.choose(row));
  }
  return tokens;
}

// Logits like a model's: a bell curve with a few tokens far above it.
std::vector<float> bell(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(BestCandidates, AreTheSortedHeadOfTheRow) {
  for (const std::size_t size : {1, 15, 16, 17, 1000, 5003}) {
    std::vector<float> logits = bell(size, size);
    for (std::size_t i = 0; i < size; i += 3) logits[i] = std::round(logits[i]);  // ties
    std::vector<Candidate> expected;
    for (std::size_t i = 0; i < size; ++i) expected.push_back({logits[i], static_cast<TokenId>(i)});
    std::stable_sort(expected.begin(), expected.end(),
                     [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    EXPECT_EQ(best_candidate(logits, all(size)).id, expected[0].id);
    std::vector<Candidate> found;
    for (const int count : {1, 2, 20, 63, 64, 65, 4000, 100000}) {
      best_candidates(logits, all(size), count, found);
      ASSERT_EQ(found.size(), std::min<std::size_t>(static_cast<std::size_t>(count), size));
      for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i].id, expected[i].id) << i;
    }
  }
}

TEST(BestCandidates, SurviveAnAscendingRow) {
  std::vector<float> logits(3000);
  for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i);
  std::vector<Candidate> found;
  best_candidates(logits, all(logits.size()), 5, found);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(found[static_cast<std::size_t>(i)].id, 2999 - i);
}

TEST(Sampler, NeverChoosesARowWithoutAToken) {
  std::vector<float> logits(100, 0.0F);
  logits[50] = 10;
  logits[99] = 20;
  const TokenRanges allowed(100, [](TokenId id) { return id != 50 && id < 90; });
  for (const float temperature : {0.0F, 2.0F}) {
    SamplingSettings settings;
    settings.temperature = temperature;
    Sampler chooser(settings, allowed, {}, never);
    for (int i = 0; i < 500; ++i) {
      std::vector<float> row = logits;
      EXPECT_TRUE(allowed.contains(chooser.choose(row)));
    }
  }
}

TEST(Sampler, ANonFiniteLogitIsAnError) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0, 16, 36, 39}) {
      std::vector<float> logits(40, 1.0F);
      logits[at] = bad;
      const Error error = testing::raised([&] { sampler({}, 40).choose(logits); });
      EXPECT_EQ(error.kind(), ErrorKind::internal);
      testing::expect_mentions(error, "token " + std::to_string(at));
    }
  }
}

TEST(Sampler, TopKKeepsTheBest) {
  SamplingSettings settings;
  settings.top_k = 2;
  EXPECT_EQ(drawn(settings, {1.0F, 1.2F, 1.1F, 0.9F}), (std::set<TokenId>{1, 2}));
}

TEST(Sampler, TopPKeepsTheShortestRunThatHoldsTheMass) {
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.15F), std::log(0.05F)};
  SamplingSettings settings;
  settings.top_p = 0.49F;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0}));
  settings.top_p = 0.51F;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0, 1}));
  settings.top_p = 0.81F;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0, 1, 2}));
}

// A nucleus larger than the first guess: of 1,000 equal tokens, 900 hold 0.9 of the mass.
TEST(Sampler, TopPFindsALargeNucleus) {
  SamplingSettings settings;
  settings.top_p = 0.9F;
  const std::set<TokenId> tokens = drawn(settings, std::vector<float>(1000, 0.0F), 20000);
  EXPECT_GT(*tokens.rbegin(), 890);
  EXPECT_LE(*tokens.rbegin(), 900);
}

TEST(Sampler, TopPCountsWhatTopKKept) {
  // 0.5, 0.3, 0.2: after top-k 2 the best holds 0.625 of the mass.
  const std::vector<float> logits = {std::log(0.5F), std::log(0.3F), std::log(0.2F)};
  SamplingSettings settings;
  settings.top_k = 2;
  settings.top_p = 0.6F;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0}));
  settings.top_k = 0;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0, 1}));
}

TEST(Sampler, MinPIsRelativeToTheBestWithAndWithoutOtherFilters) {
  const std::vector<float> logits = {0.0F, std::log(0.3F), std::log(0.1F)};
  SamplingSettings settings;
  settings.min_p = 0.2F;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0, 1}));
  settings.top_k = 3;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0, 1}));
  settings.top_k = 0;
  settings.top_p = 0.999F;
  EXPECT_EQ(drawn(settings, logits), (std::set<TokenId>{0, 1}));
}

TEST(Sampler, FrequenciesFollowTheSoftmaxAtTheTemperature) {
  const std::vector<float> logits = {0.0F, std::log(2.0F), std::log(5.0F)};
  for (const float temperature : {1.0F, 0.5F}) {
    for (const int top_k : {0, 2}) {
      SamplingSettings settings;
      settings.temperature = temperature;
      settings.top_k = top_k;
      Sampler chooser = sampler(settings, logits.size());
      constexpr int kDraws = 40000;
      std::vector<int> counts(3);
      for (int i = 0; i < kDraws; ++i) {
        std::vector<float> row = logits;
        ++counts[static_cast<std::size_t>(chooser.choose(row))];
      }
      std::vector<double> weights = {top_k == 2 ? 0.0 : 1.0, std::pow(2, 1 / temperature),
                                     std::pow(5, 1 / temperature)};
      const double total = weights[0] + weights[1] + weights[2];
      for (std::size_t id = 0; id < 3; ++id) {
        EXPECT_NEAR(counts[id] / static_cast<double>(kDraws), weights[id] / total, 0.01);
      }
    }
  }
}

TEST(Sampler, VerySmallTemperatureIsGreedy) {
  SamplingSettings settings;
  settings.temperature = 1e-30F;
  EXPECT_EQ(drawn(settings, {1.0F, 1.0001F, 0.5F}), (std::set<TokenId>{1}));
}

TEST(Sampler, RepetitionCountsPromptAndAnswerButNoControlTokens) {
  SamplingSettings settings;
  settings.temperature = 0;
  settings.repetition_penalty = 2;
  const std::vector<TokenId> prompt = {0, 3};
  Sampler chooser(settings, all(5), prompt, [](TokenId id) { return id == 3; });
  std::vector<float> row = {4.0F, 3.0F, -1.0F, 2.9F, -1.5F};
  EXPECT_EQ(chooser.choose(row), 1);  // 4 became 2, below 3
  EXPECT_FLOAT_EQ(row[0], 2.0F);
  EXPECT_FLOAT_EQ(row[3], 2.9F);
  chooser.accept(1);
  chooser.accept(2);
  row = {4.0F, 3.0F, -1.0F, 2.9F, -1.5F};
  EXPECT_EQ(chooser.choose(row), 3);
  EXPECT_FLOAT_EQ(row[1], 1.5F);
  EXPECT_FLOAT_EQ(row[2], -2.0F);  // a negative logit grows more negative
}

TEST(Sampler, PenaltiesComeBeforeTheBias) {
  SamplingSettings settings;
  settings.temperature = 0;
  settings.repetition_penalty = 2;
  settings.logit_bias = {{0, 1.0F}};
  const std::vector<TokenId> prompt = {0};
  Sampler chooser(settings, all(2), prompt, never);
  std::vector<float> row = {4.0F, 0.0F};
  chooser.choose(row);
  EXPECT_FLOAT_EQ(row[0], 3.0F);  // 4 / 2 + 1, not (4 + 1) / 2
}

TEST(Sampler, AFullBanHoldsAtAnyTemperatureAndTheRestStillDraws) {
  SamplingSettings settings;
  settings.temperature = 2;
  settings.logit_bias = {{1, -100.0F}};
  EXPECT_EQ(drawn(settings, {0.0F, 30.0F, 0.0F}), (std::set<TokenId>{0, 2}));
}

TEST(RandomStream, IsUniformAndReproducible) {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}}) {
    RandomStream stream(seed);
    RandomStream again(seed);
    std::vector<int> buckets(16);
    for (int i = 0; i < 16000; ++i) {
      const double value = stream.next();
      ASSERT_GE(value, 0.0);
      ASSERT_LT(value, 1.0);
      ASSERT_EQ(value, again.next());
      ++buckets[static_cast<std::size_t>(value * 16)];
    }
    for (const int count : buckets) EXPECT_NEAR(count, 1000, 150);
  }
}

// Raw seeds of counter generators that differ by the counter's step give shifted copies of one stream.
TEST(RandomStream, NeighbouringSeedsShareNothing) {
  std::set<double> values;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    RandomStream stream(seed * 0x9e3779b97f4a7c15U);
    for (int i = 0; i < 50; ++i) values.insert(stream.next());
  }
  EXPECT_EQ(values.size(), 20U * 50U);
}

// What a decode step may spend on sampling; the model itself takes tens of milliseconds on such a machine.
// The limits are wide because the tests share their processors.
TEST(Sampler, IsFastAtTheRealVocabulary) {
  constexpr std::size_t kVocabulary = 248320;
  const std::vector<float> logits = bell(kVocabulary, 1);
  struct Case {
    const char* name;
    float temperature;
    int top_k;
    float top_p;
    double limit_ms;
  };
  for (const Case& c : {Case{"greedy", 0, 0, 1, 3}, Case{"top_k_20", 1, 20, 0.95F, 5},
                        Case{"top_p", 1, 0, 0.95F, 50}, Case{"all", 1, 0, 1, 30}}) {
    SamplingSettings settings;
    settings.temperature = c.temperature;
    settings.top_k = c.top_k;
    settings.top_p = c.top_p;
    Sampler chooser = sampler(settings, kVocabulary);
    double best_ms = 1e9;
    for (int i = 0; i < 15; ++i) {
      std::vector<float> row = logits;
      const std::clock_t start = std::clock();
      chooser.choose(row);
      best_ms = std::min(best_ms, 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    RecordProperty(c.name, std::to_string(best_ms) + " ms");
    EXPECT_LT(best_ms, c.limit_ms) << c.name;
  }
}

}  // namespace
}  // namespace lily::engine
