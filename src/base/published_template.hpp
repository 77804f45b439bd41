// The chat template that Qwen3.6 publishes, embedded from resources/.
#pragma once

#include <string_view>

namespace lily {

// Byte for byte the text of resources/qwen3.6-chat-template.jinja.
std::string_view published_chat_template();

}  // namespace lily
