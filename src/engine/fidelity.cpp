// How near our logits are to stored ones.
#include "engine/fidelity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "lily/error.hpp"

namespace lily::engine {
namespace {

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

double log_sum_exp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

}  // namespace

double negative_log_likelihood(std::span<const float> logits, TokenId id) {
  return log_sum_exp(logits) - logits[static_cast<std::size_t>(id)];
}

TokenId best_token(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

void Fidelity::add_position(std::span<const float> ours, TokenId stored_best) {
  if (!std::all_of(ours.begin(), ours.end(), [](float logit) { return std::isfinite(logit); })) {
    throw Error(ErrorKind::internal, fmt::format("logits of position {} are not finite", positions_));
  }
  ++positions_;
  if (best_token(ours) == stored_best) ++equal_best_;
}

void Fidelity::add_logits(std::span<const float> ours, std::span<const float> stored) {
  ++compared_;
  const double our_sum = log_sum_exp(ours);
  const double stored_sum = log_sum_exp(stored);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double difference = static_cast<double>(stored[i]) - ours[i];
    max_error_ = std::max(max_error_, std::abs(difference));
    kl_ += std::exp(stored[i] - stored_sum) * (difference - stored_sum + our_sum);
  }
}

void Fidelity::add_likelihood(double ours, double stored) {
  ++predicted_;
  our_nll_ += ours;
  stored_nll_ += stored;
}

EvaluationRow Fidelity::row(const std::string& entry) const {
  EvaluationRow row;
  row.entry = entry;
  row.positions = positions_;
  row.max_abs_error = compared_ > 0 ? max_error_ : kAbsent;
  row.top1 = positions_ > 0 ? static_cast<double>(equal_best_) / positions_ : kAbsent;
  row.perplexity_ratio = predicted_ > 0 ? std::exp((our_nll_ - stored_nll_) / predicted_) : kAbsent;
  row.kl = compared_ > 0 ? kl_ / compared_ : kAbsent;
  return row;
}

}  // namespace lily::engine
