// The published chat template of Qwen3.6, written by hand, yielding control tokens and plain text apart.
#pragma once

#include "lily/text.hpp"

namespace lily::text {

// Pure. Where it differs from the template on purpose is listed in docs/model.md, "Chat format".
// Throws Error(bad_input) whose param() names the message.
RenderedPrompt render(const ChatPrompt& prompt);

// True when `chat_template` is the text this renderer reproduces.
bool is_known_template(std::string_view chat_template);

}  // namespace lily::text
