// The body of POST /v1/chat/completions as values.
#pragma once

#include <string_view>

#include "lily/generation.hpp"

namespace lily::serve {

struct ChatRequest {
  GenerationRequest generation;  // its prompt is a ChatPrompt
  bool stream = false;
  bool include_usage = false;  // of a stream; a buffered reply always has it
};

// Throws Error whose param() is the path of the field at fault: bad_input (malformed JSON, wrong types,
// unknown fields, contradictions), not_found (another model than `model_id`), unsupported (what this server
// does not do). Ranges of sampling values and the conversation's length are the engine's to check.
ChatRequest parse_chat_request(std::string_view body, std::string_view model_id);

}  // namespace lily::serve
