// Refuses tokens, logits and lengths before any work is done.
#include "backend/step_arguments.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "lily/error.hpp"

namespace lily::backend {

void check_step(const Sequence& sequence, std::span<const TokenId> tokens, std::span<const float> logits,
                int vocabulary) {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocabulary) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("token id {} is outside the vocabulary of {}", token, vocabulary));
    }
  }
  if (tokens.empty() || logits.size() != static_cast<std::size_t>(vocabulary)) {
    throw Error(ErrorKind::internal, fmt::format("{} tokens and room for {} logits, need at least 1 and {}",
                                                 tokens.size(), logits.size(), vocabulary));
  }
  const auto length =
      static_cast<std::int64_t>(sequence.position()) + static_cast<std::int64_t>(tokens.size());
  if (length > sequence.capacity()) {
    throw Error(ErrorKind::too_long,
                fmt::format("{} tokens do not fit a sequence of {}", length, sequence.capacity()));
  }
}

}  // namespace lily::backend
