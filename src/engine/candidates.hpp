// Searching a row of logits: the best token, and the best few in order.
#pragma once

#include <span>
#include <vector>

#include "engine/token_ranges.hpp"
#include "lily/text.hpp"

namespace lily::engine {

struct Candidate {
  float logit = 0;
  TokenId id = 0;
};

// The order of choice: by logit, then by the lower id.
inline bool better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

// The largest logit of the allowed ids; the lowest id among equal ones. Throws Error(internal) when one of
// the allowed logits is not finite.
Candidate best_candidate(std::span<const float> logits, const TokenRanges& allowed);

// The `count` largest, best first, equal ones by id. Reads the row once and sorts only what it keeps.
void best_candidates(std::span<const float> logits, const TokenRanges& allowed, int count,
                     std::vector<Candidate>& candidates);

}  // namespace lily::engine
