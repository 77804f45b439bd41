// A request, checked as a whole and turned into ids, settings and limits, before anything runs.
#pragma once

#include <span>
#include <vector>

#include "checkpoint/config.hpp"
#include "engine/sampling_settings.hpp"
#include "engine/token_ranges.hpp"
#include "lily/generation.hpp"
#include "lily/text.hpp"
#include "text/output_parser.hpp"

namespace lily::engine {

// What requests are checked against.
struct RequestRules {
  const TextProtocol& text;
  const checkpoint::GenerationDefaults& defaults;
  int context = 0;
  const TokenRanges& allowed;         // ids that have a token
  std::span<const TokenId> stop_ids;  // those that end an answer
};

struct PreparedRequest {
  std::vector<TokenId> prompt;
  SamplingSettings sampling;
  int max_new_tokens = 0;  // at least 1; prompt and answer fit the context together
  bool ignore_eos = false;
  text::OutputParser::Options parser;  // without the call id prefix
};

// Throws Error: bad_input (param() names the field), too_long (prompt against context), unsupported (images).
PreparedRequest prepare_request(const GenerationRequest& request, const RequestRules& rules);

}  // namespace lily::engine
