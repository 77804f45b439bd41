// Top-k by insertion: k is 8 and most logits lose against the smallest kept one at the first comparison.
#include "backend/cpu/routing.hpp"

#include <fmt/format.h>

#include <cmath>

#include "lily/error.hpp"

namespace lily::cpu {

void select_experts(const float* logits, int experts, int count, int layer, Route* routes) {
  int kept = 0;
  for (int e = 0; e < experts; ++e) {
    const float logit = logits[e];
    if (!std::isfinite(logit)) {
      throw Error(
          ErrorKind::internal,
          fmt::format("layer {}: the router's logit of expert {} is {}, not finite", layer, e, logit));
    }
    if (kept == count && logit <= routes[count - 1].weight) continue;
    int at = kept < count ? kept++ : count - 1;
    for (; at > 0 && routes[at - 1].weight < logit; --at) routes[at] = routes[at - 1];
    routes[at] = {e, logit};
  }
  const float largest = routes[0].weight;
  float sum = 0;
  for (int i = 0; i < count; ++i) sum += routes[i].weight = std::exp(routes[i].weight - largest);
  for (int i = 0; i < count; ++i) routes[i].weight /= sum;
}

}  // namespace lily::cpu
