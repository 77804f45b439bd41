// The mixture of experts for many tokens at once against the formula for one token: gathering must not mix
// tokens or experts, whoever gets how many.
#include "backend/reference/experts.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "backend/reference/router.hpp"
#include "support/fixtures.hpp"

namespace lily::reference {
namespace {

class ExpertsTest : public ::testing::Test {
 protected:
  static constexpr int kChosen = 8;

  std::vector<double> product(const checkpoint::Matrix& matrix, int expert,
                              const std::vector<double>& x) const {
    std::vector<float> row(static_cast<std::size_t>(matrix.columns));
    std::vector<double> y(static_cast<std::size_t>(matrix.rows));
    for (std::int64_t r = 0; r < matrix.rows; ++r) {
      checkpoint::decode_row(*checkpoint_, matrix, expert, r, row);
      for (std::size_t i = 0; i < x.size(); ++i) y[static_cast<std::size_t>(r)] += row[i] * x[i];
    }
    return y;
  }

  std::vector<double> feed_forward(const checkpoint::Matrix& gate, const checkpoint::Matrix& up,
                                   const checkpoint::Matrix& down, int expert,
                                   const std::vector<double>& x) const {
    std::vector<double> inner = product(gate, expert, x);
    const std::vector<double> factor = product(up, expert, x);
    for (std::size_t i = 0; i < inner.size(); ++i) inner[i] *= factor[i] / (1 + std::exp(-inner[i]));
    return product(down, expert, inner);
  }

  // The formula of one token, all in double.
  std::vector<double> naive(const std::vector<double>& x) const {
    const std::vector<double> scores = product(moe().router, 0, x);
    const std::vector<float> logits(scores.begin(), scores.end());
    std::vector<double> y =
        feed_forward(moe().shared_gate_proj, moe().shared_up_proj, moe().shared_down_proj, 0, x);
    const double shared = 1 / (1 + std::exp(-product(moe().shared_expert_gate, 0, x)[0]));
    for (double& value : y) value *= shared;
    for (const ExpertChoice& choice : choose_experts(logits, kChosen)) {
      const auto part = feed_forward(moe().gate_proj, moe().up_proj, moe().down_proj, choice.expert, x);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] += choice.weight * part[i];
    }
    return y;
  }

  const checkpoint::MixtureOfExperts& moe() const { return checkpoint_->layers()[1].moe; }

  void expect_equal(const Rows& h) {
    Rows residual(h.count(), h.width());
    for (int token = 0; token < h.count(); ++token) {
      for (float& value : residual[token]) value = 0.5F;  // results are added, not stored
    }
    ThreadPool pool(2);
    add_experts({*checkpoint_, pool}, moe(), kChosen, h, residual);
    for (int token = 0; token < h.count(); ++token) {
      const std::vector<double> wanted = naive({h[token].begin(), h[token].end()});
      double scale = 0;
      for (const double value : wanted) scale = std::max(scale, std::abs(value));
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_NEAR(residual[token][i], 0.5 + wanted[i], 1e-5 * (scale + 1)) << "token " << token;
      }
    }
  }

  Rows random_rows(int count) {
    Rows rows(count, static_cast<std::size_t>(checkpoint_->dimensions().hidden_size));
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal;
    for (int token = 0; token < count; ++token) {
      for (float& value : rows[token]) value = normal(random);
    }
    return rows;
  }

  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_ = checkpoint::Checkpoint::open(testing::kTinyQ4);
};

TEST_F(ExpertsTest, OneTokenLeavesMostExpertsEmpty) { expect_equal(random_rows(1)); }

TEST_F(ExpertsTest, TwoAndThirtyThreeTokens) {
  expect_equal(random_rows(2));
  expect_equal(random_rows(33));
}

TEST_F(ExpertsTest, EqualTokensAllGoToTheSameExperts) {
  Rows rows = random_rows(33);
  for (int token = 1; token < rows.count(); ++token)
    std::copy(rows[0].begin(), rows[0].end(), rows[token].begin());
  expect_equal(rows);
}

}  // namespace
}  // namespace lily::reference
