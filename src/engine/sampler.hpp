// Chooses the next token of one request from a row of logits.
//
// The order of the steps: repetition, presence and frequency penalties; logit bias; temperature; top-k; top-p
// over what top-k kept; min-p against the best token; one draw. Every filter keeps at least the best token.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/candidates.hpp"
#include "engine/random_stream.hpp"
#include "engine/sampling_settings.hpp"
#include "engine/token_ranges.hpp"

namespace lily::engine {

class Sampler {
 public:
  // `prompt` counts for the repetition penalty only. Tokens for which `is_control` holds (turn ends, think
  // and call markup) are exempt from it: penalizing them would break the format.
  Sampler(SamplingSettings settings, TokenRanges allowed, std::span<const TokenId> prompt,
          const std::function<bool(TokenId)>& is_control);

  // Adjusts `logits` in place. Throws Error(internal) when a logit is not finite.
  TokenId choose(std::span<float> logits);
  // Counts `id` as part of the answer for the penalties of the following steps.
  void accept(TokenId id);

 private:
  void penalize(std::span<float> logits) const;
  void mark_repeated(TokenId id);
  TokenId draw_from_all(std::span<const float> logits, Candidate best);
  TokenId draw_from_candidates(std::span<const float> logits, Candidate best);
  double collect_nucleus(std::span<const float> logits, Candidate best);
  // Relative to the best token, so the largest is 1.
  float weight(float logit, Candidate best) const;

  SamplingSettings settings_;
  TokenRanges allowed_;
  std::function<bool(TokenId)> is_control_;
  RandomStream random_;
  std::unordered_map<TokenId, int> answer_counts_;
  std::vector<bool> is_repeated_;      // by id; empty without a repetition penalty
  std::vector<TokenId> repeated_;      // the ids set in it
  std::vector<Candidate> candidates_;  // best first; kept between steps for its memory
};

}  // namespace lily::engine
