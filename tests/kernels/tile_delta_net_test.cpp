// The gated delta rule in chunks on tiles, with the tiles in plain C++, against the recurrence of
// docs/model.md in fp64.
#include "backend/cpu/simd/generic.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
// The body uses Simd, so it comes after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/body/tile_delta_net.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

constexpr float kUntouched = 7;

// Heads that share a key head, with inputs as they lie in prefill: the heads of a token beside each other.
struct Heads {
  int tokens, heads, key_dim, value_dim;
  std::vector<float> inputs, gates;
  std::vector<float> states, out = {};
  bool one_term = false;

  Heads(int token_count, int head_count, int keys, int values)
      : tokens(token_count), heads(head_count), key_dim(keys), value_dim(values) {
    const auto t = static_cast<std::size_t>(tokens), h = static_cast<std::size_t>(heads);
    inputs.resize(t * static_cast<std::size_t>(stride()));
    gates.resize(t * 2 * h);
    states.resize(h * static_cast<std::size_t>(key_dim * value_dim));
    out.assign(t * static_cast<std::size_t>(out_stride()), kUntouched);
    std::mt19937 random(static_cast<unsigned>(tokens + 1000 * heads + key_dim));
    std::normal_distribution<float> normal;
    for (float& x : inputs) x = normal(random);
    for (float& s : states) s = 0.1F * normal(random);
    for (int i = 0; i < tokens; ++i) {
      // Keys that resemble each other, as those of a model do.
      float* row = inputs.data() + static_cast<std::ptrdiff_t>(i) * stride();
      for (int j = 0; j < 2 * key_dim; ++j) row[j] += 0.5F;
      generic_kernels().l2_normalize(row, 1e-6F, 1 / std::sqrt(static_cast<float>(key_dim)), key_dim);
      generic_kernels().l2_normalize(row + key_dim, 1e-6F, 1, key_dim);
      for (int j = 0; j < heads; ++j) {
        float* gate = gates.data() + static_cast<std::ptrdiff_t>(i) * 2 * heads + j;
        gate[0] = std::exp(-0.1F * std::fabs(normal(random)));
        gate[heads] = 1 / (1 + std::exp(-normal(random)));
      }
    }
  }
  std::ptrdiff_t stride() const { return 2 * key_dim + heads * value_dim + 3; }
  std::ptrdiff_t out_stride() const { return heads * value_dim + 1; }
  std::ptrdiff_t state_size() const { return static_cast<std::ptrdiff_t>(key_dim) * value_dim; }

  DeltaNetRun run(int head, int first, int count) {
    DeltaNetRun run;
    run.state = states.data() + head * state_size();
    run.queries = inputs.data() + first * stride();
    run.keys = run.queries + key_dim;
    run.values = run.keys + key_dim + static_cast<std::ptrdiff_t>(head) * value_dim;
    run.alpha = gates.data() + static_cast<std::ptrdiff_t>(first) * 2 * heads + head;
    run.beta = run.alpha + heads;
    run.out = out.data() + first * out_stride() + static_cast<std::ptrdiff_t>(head) * value_dim;
    run.query_stride = run.key_stride = run.value_stride = stride();
    run.gate_stride = static_cast<std::ptrdiff_t>(2) * heads;
    run.out_stride = out_stride();
    run.tokens = count;
    run.key_dim = key_dim;
    run.value_dim = value_dim;
    return run;
  }
  // Tokens [first, first + count) of the heads from `head` on, together.
  void advance(int first, int count, int head, int together) {
    std::vector<DeltaNetRun> runs;
    for (int i = 0; i < together; ++i) runs.push_back(run(head + i, first, count));
    const auto delta_net_heads = one_term ? &tiled::delta_net_heads<PlainTiles, tiled::PairTile>
                                          : &tiled::delta_net_heads<PlainTiles, tiled::SplitTile>;
    delta_net_heads(runs.data(), together, generic_kernels().delta_net);
  }
  void advance_all() { advance(0, tokens, 0, heads); }

  double state(int head, int v, int k) const {
    const std::ptrdiff_t at = (v / kLanes * key_dim + k) * kLanes + v % kLanes;
    return states[static_cast<std::size_t>(head * state_size() + at)];
  }
};

// The outputs of all heads, then their states, both in fp64.
struct Expected {
  std::vector<double> out, states;

  explicit Expected(Heads heads) {
    for (int h = 0; h < heads.heads; ++h) {
      const DeltaNetRun run = heads.run(h, 0, heads.tokens);
      for (int v = 0; v < heads.value_dim; ++v) {
        std::vector<double> row;
        for (int k = 0; k < heads.key_dim; ++k) row.push_back(heads.state(h, v, k));
        for (int t = 0; t < heads.tokens; ++t) {
          const float *key = run.keys + t * run.key_stride, *query = run.queries + t * run.query_stride;
          double read = 0, result = 0;
          for (int k = 0; k < heads.key_dim; ++k) {
            double& s = row[static_cast<std::size_t>(k)];
            read += (s *= run.alpha[t * run.gate_stride]) * key[k];
          }
          const double update = run.beta[t * run.gate_stride] * (run.values[t * run.value_stride + v] - read);
          for (int k = 0; k < heads.key_dim; ++k) {
            double& s = row[static_cast<std::size_t>(k)];
            result += (s += update * key[k]) * query[k];
          }
          out.push_back(result);
        }
        states.insert(states.end(), row.begin(), row.end());
      }
    }
  }
};

void expect_close(const Heads& found, const Expected& expected) {
  const auto largest = [](const std::vector<double>& x) {
    double most = 0;
    for (const double value : x) most = std::max(most, std::fabs(value));
    return most;
  };
  const double bound = found.one_term ? tolerance::kDeltaNetOneTerm : tolerance::kDeltaNetChunks;
  const double out_bound = bound * largest(expected.out), state_bound = bound * largest(expected.states);
  std::size_t out = 0, state = 0;
  for (int h = 0; h < found.heads; ++h) {
    for (int v = 0; v < found.value_dim; ++v) {
      for (int t = 0; t < found.tokens; ++t) {
        const float value =
            found.out[static_cast<std::size_t>(t * found.out_stride() + h * found.value_dim + v)];
        ASSERT_TRUE(std::isfinite(value));
        ASSERT_NEAR(value, expected.out[out++], out_bound)
            << "head " << h << ", value " << v << ", token " << t;
      }
      for (int k = 0; k < found.key_dim; ++k) {
        ASSERT_NEAR(found.state(h, v, k), expected.states[state++], state_bound)
            << "head " << h << ", value " << v << ", key " << k;
      }
    }
  }
  for (int t = 0; t < found.tokens; ++t) {
    ASSERT_EQ(found.out[static_cast<std::size_t>((t + 1) * found.out_stride() - 1)], kUntouched) << t;
  }
}

TEST(TileDeltaNet, FollowsTheRecurrence) {
  // Both sides of a chunk, of half a chunk, and of what the last tokens must be to be computed like one.
  for (const int tokens : {1, 11, 12, 31, 32, 33, 43, 44, 63, 64, 65, 76, 257}) {
    for (const bool one_term : {false, true}) {
      SCOPED_TRACE(::testing::Message() << tokens << " tokens, " << (one_term ? "one term" : "two terms"));
      Heads heads(tokens, 2, 128, 128);
      heads.one_term = one_term;
      const Expected expected(heads);
      heads.advance_all();
      expect_close(heads, expected);
    }
  }
}

TEST(TileDeltaNet, OtherShapes) {
  for (const auto& [count, keys, values] :
       {std::tuple(1, 64, 64), std::tuple(3, 64, 192), std::tuple(2, 192, 64), std::tuple(1, 32, 32)}) {
    SCOPED_TRACE(::testing::Message() << count << " heads, " << keys << " x " << values);
    Heads heads(109, count, keys, values);
    const Expected expected(heads);
    heads.advance_all();
    expect_close(heads, expected);
  }
}

// Decays whose product underflows within a chunk, none at all, and a state that is forgotten at once.
TEST(TileDeltaNet, ExtremeDecays) {
  for (const float alpha : {0.0F, 1e-30F, 0.5F, 1.0F}) {
    SCOPED_TRACE(alpha);
    Heads heads(130, 1, 64, 64);
    for (std::size_t t = 0; t < 130; ++t) heads.gates[2 * t] = t % 3 == 0 ? alpha : 1.0F;
    const Expected expected(heads);
    heads.advance_all();
    expect_close(heads, expected);
  }
}

// Case NUM-02: almost no decay, strong writes, values of 50.
TEST(TileDeltaNet, ManyTokensWithAlmostNoDecay) {
  Heads heads(6000, 1, 32, 32);
  for (std::size_t t = 0; t < 6000; ++t) {
    heads.gates[2 * t] = std::exp(-1e-5F);
    heads.gates[2 * t + 1] = 0.9F;
    for (std::ptrdiff_t i = 64; i < 96; ++i)
      heads.inputs[t * static_cast<std::size_t>(heads.stride()) + static_cast<std::size_t>(i)] *= 50;
  }
  const Expected expected(heads);
  for (const bool one_term : {false, true}) {
    Heads found = heads;
    found.one_term = one_term;
    found.advance_all();
    expect_close(found, expected);
  }
}

TEST(TileDeltaNet, HeadsTogetherOrAloneGiveTheSameBits) {
  Heads together(45, 3, 64, 64), alone = together;
  together.advance_all();
  for (int h = 0; h < 3; ++h) alone.advance(0, 45, h, 1);
  EXPECT_EQ(alone.out, together.out);
  EXPECT_EQ(alone.states, together.states);
}

TEST(TileDeltaNet, PiecesOfWholeChunksGiveTheSameBitsOthersNearOnes) {
  const Heads start(214, 1, 128, 64);
  const Expected expected(start);
  Heads whole = start, chunks = start, pieces = start;
  whole.advance_all();
  for (const auto& [first, count] : {std::pair(0, 64), std::pair(64, 128), std::pair(192, 22)})
    chunks.advance(first, count, 0, 1);
  EXPECT_EQ(chunks.out, whole.out);
  EXPECT_EQ(chunks.states, whole.states);
  for (const auto& [first, count] : {std::pair(0, 1), std::pair(1, 40), std::pair(41, 173)})
    pieces.advance(first, count, 0, 1);
  expect_close(pieces, expected);
}

TEST(TileDeltaNet, WhatIsNotFiniteIsNoticed) {
  Heads heads(40, 1, 64, 64);
  heads.inputs[static_cast<std::size_t>(20 * heads.stride() + 64 + 5)] = NAN;  // a key
  heads.advance_all();
  EXPECT_TRUE(std::isnan(heads.out[static_cast<std::size_t>(20 * heads.out_stride())]));
  EXPECT_TRUE(std::isnan(heads.out[static_cast<std::size_t>(39 * heads.out_stride())]));
}

}  // namespace
}  // namespace lily::cpu
