// A backend without a model: its logits spell out a script. For tests of the engine and the server.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "backend/backend.hpp"

namespace lily::testing {

struct Script {
  std::vector<TokenId> tokens{};  // answer token n is tokens[n]; after the last one it begins anew
  int vocabulary = 512;
  int max_positions = 4096;
  int chunk = 16;  // prefill checks for a stop after this many tokens
  std::chrono::milliseconds token_delay{0};
  std::chrono::milliseconds chunk_delay{0};
  std::optional<int> nan_at{};    // answer token whose logits hold a NaN
  std::optional<int> error_at{};  // answer token whose computation throws Error(device)
  std::uint64_t weight_bytes = 1 << 20;
  std::uint64_t bytes_per_token = 2048;  // of a sequence
};

// What happened, readable while and after the engine runs.
struct ScriptLog {
  int sequences = 0;
  int resets = 0;
  int prefill_tokens = 0;
  int decode_steps = 0;
};

// The scripted token's logit is 20, all others lie between 0 and 1 in an order that depends on the id.
std::unique_ptr<backend::Backend> make_scripted_backend(Script script, std::shared_ptr<ScriptLog> log = {});

}  // namespace lily::testing
