// Which experts a token goes to, and with what weights.
#include "backend/reference/router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lily/error.hpp"

namespace lily::reference {

std::vector<ExpertChoice> choose_experts(std::span<const float> logits, int count) {
  std::vector<ExpertChoice> choices(logits.size());
  for (std::size_t expert = 0; expert < logits.size(); ++expert) {
    if (!std::isfinite(logits[expert])) {
      throw Error(ErrorKind::internal,
                  fmt::format("router logit of expert {} is {}, not finite", expert, logits[expert]));
    }
    choices[expert] = {static_cast<int>(expert), logits[expert]};
  }
  std::partial_sort(choices.begin(), choices.begin() + count, choices.end(),
                    [](const ExpertChoice& a, const ExpertChoice& b) {
                      return a.weight != b.weight ? a.weight > b.weight : a.expert < b.expert;
                    });
  choices.resize(static_cast<std::size_t>(count));
  const double largest = choices.front().weight;
  double total = 0;
  for (ExpertChoice& choice : choices) {
    choice.weight = std::exp(choice.weight - largest);
    total += choice.weight;
  }
  for (ExpertChoice& choice : choices) choice.weight /= total;
  return choices;
}

}  // namespace lily::reference
