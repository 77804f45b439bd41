// What a request's sampling options become: checked, with the checkpoint's and the built-in defaults filled
// in.
#pragma once

#include <cstdint>
#include <map>

#include "checkpoint/config.hpp"
#include "lily/generation.hpp"

namespace lily::engine {

// A token with this bias is never chosen.
constexpr float kBannedBias = -100;

struct SamplingSettings {
  float temperature = 1;
  int top_k = 0;  // 0 keeps all
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::map<TokenId, float> logit_bias{};
  std::uint64_t seed = 0;

  bool greedy() const noexcept { return temperature == 0 || top_p == 0 || top_k == 1; }
  SamplingOptions as_options() const;
};

// Throws Error(bad_input) whose param() is the field's name in a request's body. An unset seed becomes a
// random one. `vocabulary` bounds the ids of logit_bias.
SamplingSettings resolve_sampling(const SamplingOptions& request,
                                  const checkpoint::GenerationDefaults& defaults, std::size_t vocabulary);

}  // namespace lily::engine
