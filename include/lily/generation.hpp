// One request to the engine and its result, as plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "lily/chat.hpp"
#include "lily/text.hpp"

namespace lily {

// Unset fields take the checkpoint's generation_config.json, then the values in comments.
struct SamplingOptions {
  std::optional<float> temperature;         // [0, 2]; 0 is greedy; 1
  std::optional<int> top_k;                 // >= -1; 0 and -1 keep all; 0
  std::optional<float> top_p;               // [0, 1]; 0 keeps the best token only; 1
  std::optional<float> min_p;               // [0, 1]; 0
  std::optional<float> repetition_penalty;  // (0, 10]; over prompt and answer, control tokens exempt; 1
  std::optional<float> presence_penalty;    // [-2, 2]; over the answer; 0
  std::optional<float> frequency_penalty;   // [-2, 2]; over the answer; 0
  std::map<TokenId, float> logit_bias;      // each in [-100, 100]
  std::optional<std::uint64_t> seed;        // unset: random
};

struct GenerationRequest {
  // A conversation, text to continue (control literals are matched), or ids.
  std::variant<ChatPrompt, std::string, std::vector<TokenId>> prompt;
  SamplingOptions sampling;
  std::optional<int> max_tokens;          // >= 1; unset: up to the context limit
  std::vector<std::string> stop_strings;  // at most 64 of 1 to 4096 bytes; act on content only
  bool ignore_eos = false;                // never sample the stop tokens, so only limits end the answer
  bool parse_tool_calls = true;           // false: call markup stays content (tool_choice none)
};

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, not computed again
  int completion_tokens = 0;
  int reasoning_tokens = 0;  // of the completion
};

struct Timing {
  std::chrono::duration<double> queued{};   // waiting for earlier requests
  std::chrono::duration<double> prefill{};  // to the first token's logits
  std::chrono::duration<double> decode{};   // from there to the end
};

struct GenerationResult {
  Answer answer;
  std::vector<TokenId> ids;  // the completion, without the stop token
  Usage usage;
  Timing timing;
  SamplingOptions effective;  // what was used, all scalar fields set
};

// Called from the generating thread. Exceptions they throw end the request and reach the caller.
struct GenerationCallbacks {
  std::function<void(int done, int total)> prefill;  // prompt tokens, between chunks and layers
  std::function<void(const Delta&)> delta;
};

}  // namespace lily
