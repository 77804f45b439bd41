// How near our logits are to stored ones: error, agreement, perplexity and divergence over many positions.
#pragma once

#include <span>
#include <string>

#include "lily/measure.hpp"
#include "lily/text.hpp"

namespace lily::engine {

class Fidelity {
 public:
  // One position with its stored best token. Throws Error(internal) when our logits are not finite.
  void add_position(std::span<const float> ours, TokenId stored_best);
  // The position's logits as stored.
  void add_logits(std::span<const float> ours, std::span<const float> stored);
  // Negative log-likelihoods of the token that follows.
  void add_likelihood(double ours, double stored);

  EvaluationRow row(const std::string& entry) const;

 private:
  int positions_ = 0;
  int equal_best_ = 0;
  int compared_ = 0;
  int predicted_ = 0;
  double max_error_ = 0;
  double kl_ = 0;
  double our_nll_ = 0;
  double stored_nll_ = 0;
};

// -log softmax(logits)[id]
double negative_log_likelihood(std::span<const float> logits, TokenId id);

// The lowest id with the largest logit.
TokenId best_token(std::span<const float> logits);

}  // namespace lily::engine
