// Which experts a token goes to.
#pragma once

namespace lily::cpu {

struct Route {
  int expert = 0;
  float weight = 0;
};

// The `count` largest logits in descending order, ties to the lower expert, with softmax weights over the
// selected ones (equal to renormalizing the softmax over all). Throws Error(internal) naming `layer` when a
// logit is not finite.
void select_experts(const float* logits, int experts, int count, int layer, Route* routes);

}  // namespace lily::cpu
