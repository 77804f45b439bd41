// Which experts a token goes to, and with what weights.
#pragma once

#include <span>
#include <vector>

namespace lily::reference {

struct ExpertChoice {
  int expert = 0;
  double weight = 0;  // softmax over the chosen logits
};

// The `count` largest logits, best first; equal ones by the lower id. Throws Error(internal) when a logit is
// not finite: such a token has no defined route.
std::vector<ExpertChoice> choose_experts(std::span<const float> logits, int count);

}  // namespace lily::reference
