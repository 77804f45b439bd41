// Where the tokens of an answer come from: the backend's own choice where it offers one, else the engine's
// sampler over the backend's logits.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "backend/backend.hpp"
#include "engine/sampling_settings.hpp"
#include "engine/token_ranges.hpp"

namespace lily::engine {

// What decides the choice, besides the logits.
struct TokenChoice {
  const SamplingSettings& settings;
  const TokenRanges& allowed;
  std::span<const TokenId> prompt;  // outlives the stream
  std::function<bool(TokenId)> is_control;
};

// Up to `limit` tokens, the first from `logits`, which the last prefill or decode of `sequence` wrote; they
// are scratch from then on. The same for every backend: the last token costs no step.
std::unique_ptr<backend::TokenStream> open_tokens(backend::Backend& backend, backend::Sequence& sequence,
                                                  std::span<float> logits, const TokenChoice& choice,
                                                  int limit);

}  // namespace lily::engine
