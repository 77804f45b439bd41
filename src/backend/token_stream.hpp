// Tokens that a backend chooses itself, where their logits are, ahead of the one who reads them.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "lily/text.hpp"

namespace lily::backend {

// How tokens are chosen: the rules of the engine's sampler as plain values. The order is repetition, presence
// and frequency penalties; bias; temperature; top-k; top-p over what top-k kept; min-p against the best; one
// draw. Every filter keeps the best token.
struct SamplingRules {
  float temperature = 1;  // 0, top_p 0 and top_k 1 are greedy
  int top_k = 0;          // 0 keeps all; below the number of allowed tokens
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  // Random number n, from 1, is the 64-bit finalizer of SplitMix64 of this plus n times 0x9e3779b97f4a7c15.
  std::uint64_t random_key = 0;
  std::vector<std::pair<TokenId, float>> bias;  // -100: never

  std::vector<std::pair<TokenId, TokenId>> allowed;  // ascending [begin, end); none else is chosen
  // For the repetition penalty: the prompt's tokens and those exempt from it.
  std::span<const TokenId> prompt;
  std::vector<TokenId> exempt;

  bool greedy() const { return temperature == 0 || top_p == 0 || top_k == 1; }
  // Without penalties and bias logits are taken as they are.
  bool adjusts_logits() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0 || !bias.empty();
  }
};

// Borrows its sequence: while it lives, nobody else advances that. Steps that ran ahead of the last token
// given are undone by its end.
class TokenStream {
 public:
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;
  virtual ~TokenStream() = default;

  // The next token. All tokens given before it are part of the sequence then, it is not yet. Throws
  // Error(internal) when a logit was not finite or the limit is passed, and as Backend::decode does.
  virtual TokenId next() = 0;

 protected:
  TokenStream() = default;
};

}  // namespace lily::backend
