// The gated delta rule against the recurrence of docs/model.md in fp64.
#include <cmath>

#include "kernels/kernel_test.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

struct Inputs {
  int tokens, key_dim, value_dim;
  std::vector<float> queries, keys, values, alpha, beta;
};

class DeltaNet : public KernelTest {
 protected:
  Inputs inputs(int tokens, int key_dim, int value_dim) {
    const auto t = static_cast<std::size_t>(tokens);
    Inputs in{tokens,
              key_dim,
              value_dim,
              normals(t * static_cast<std::size_t>(key_dim)),
              normals(t * static_cast<std::size_t>(key_dim)),
              normals(t * static_cast<std::size_t>(value_dim)),
              std::vector<float>(t),
              std::vector<float>(t)};
    for (int i = 0; i < tokens; ++i) {
      kernels().l2_normalize(in.queries.data() + static_cast<std::ptrdiff_t>(i) * key_dim, 1e-6F,
                             1 / std::sqrt(static_cast<float>(key_dim)), key_dim);
      kernels().l2_normalize(in.keys.data() + static_cast<std::ptrdiff_t>(i) * key_dim, 1e-6F, 1, key_dim);
      in.alpha[static_cast<std::size_t>(i)] = std::exp(-std::fabs(normal()));
      in.beta[static_cast<std::size_t>(i)] = 1 / (1 + std::exp(-normal()));
    }
    return in;
  }

  // Runs tokens [first, first + count) on `state`.
  std::vector<float> run(const Inputs& in, int first, int count, std::vector<float>& state) {
    std::vector<float> out(static_cast<std::size_t>(count * in.value_dim));
    DeltaNetRun run;
    run.state = state.data();
    run.queries = in.queries.data() + static_cast<std::ptrdiff_t>(first) * in.key_dim;
    run.keys = in.keys.data() + static_cast<std::ptrdiff_t>(first) * in.key_dim;
    run.values = in.values.data() + static_cast<std::ptrdiff_t>(first) * in.value_dim;
    run.alpha = in.alpha.data() + first;
    run.beta = in.beta.data() + first;
    run.out = out.data();
    run.query_stride = run.key_stride = in.key_dim;
    run.value_stride = run.out_stride = in.value_dim;
    run.gate_stride = 1;
    run.tokens = count;
    run.key_dim = in.key_dim;
    run.value_dim = in.value_dim;
    for (int block = 0; block < in.value_dim / kLanes; ++block) kernels().delta_net(run, block);
    return out;
  }

  static std::vector<double> recurrence(const Inputs& in) {
    const auto keys = static_cast<std::size_t>(in.key_dim), values = static_cast<std::size_t>(in.value_dim);
    std::vector<double> state(keys * values), out;
    for (std::size_t t = 0; t < static_cast<std::size_t>(in.tokens); ++t) {
      for (std::size_t v = 0; v < values; ++v) {
        double* row = state.data() + v * keys;
        double read = 0, result = 0;
        for (std::size_t k = 0; k < keys; ++k) read += (row[k] *= in.alpha[t]) * in.keys[t * keys + k];
        const double update = in.beta[t] * (in.values[t * values + v] - read);
        for (std::size_t k = 0; k < keys; ++k) {
          row[k] += update * in.keys[t * keys + k];
          result += row[k] * in.queries[t * keys + k];
        }
        out.push_back(result);
      }
    }
    return out;
  }

  static void expect_close(const std::vector<float>& found, const std::vector<double>& expected,
                           double bound) {
    double largest = 0;
    for (const double value : expected) largest = std::max(largest, std::fabs(value));
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_TRUE(std::isfinite(found[i])) << i;
      ASSERT_NEAR(found[i], expected[i], bound * largest) << i;
    }
  }
};

TEST_P(DeltaNet, FollowsTheRecurrence) {
  for (const int tokens : {1, 2, 3, 64, 257}) {
    const Inputs in = inputs(tokens, 128, 128);
    std::vector<float> state(128 * 128);
    expect_close(run(in, 0, tokens, state), recurrence(in), tolerance::kDeltaNet);
  }
}

TEST_P(DeltaNet, RunsInPiecesGiveTheSameBits) {
  const Inputs in = inputs(65, 128, 128);
  std::vector<float> whole_state(128 * 128), state(128 * 128);
  const std::vector<float> whole = run(in, 0, 65, whole_state);
  std::vector<float> pieces;
  for (const auto& [first, count] : {std::pair(0, 1), std::pair(1, 30), std::pair(31, 34)}) {
    const std::vector<float> piece = run(in, first, count, state);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  EXPECT_EQ(state, whole_state);
  EXPECT_EQ(pieces, whole);
}

// Case NUM-02: almost no decay, strong writes, values of 50.
TEST_P(DeltaNet, TwentyThousandTokensWithAlmostNoDecay) {
  Inputs in = inputs(20000, 16, 16);
  for (float& value : in.values) value *= 50;
  std::fill(in.alpha.begin(), in.alpha.end(), std::exp(-1e-5F));
  std::fill(in.beta.begin(), in.beta.end(), 0.9F);
  std::vector<float> state(16 * 16);
  expect_close(run(in, 0, in.tokens, state), recurrence(in), tolerance::kDeltaNetLongRun);
}

LILY_FOR_ALL_INSTRUCTION_SETS(DeltaNet);

}  // namespace
}  // namespace lily::cpu
