// A conversation as the engine takes it, and the pieces of an answer as the engine gives them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lily/json.hpp"

namespace lily {

enum class Role { system, developer, user, assistant, tool };

// One function call, made by the model or replayed from the history.
struct ToolCall {
  std::string id;
  std::string name;
  Json arguments;  // an object, keys in order; {} when there are none
};

// One piece of a message's content. Images and videos render as placeholders; the engine refuses them later.
struct ContentPart {
  enum class Kind { text, image, video };
  Kind kind = Kind::text;
  std::string text;  // of a text part
};

struct Message {
  Role role = Role::user;
  std::vector<ContentPart> content;
  std::optional<std::string> reasoning;  // assistant only
  std::vector<ToolCall> tool_calls;      // assistant only
  std::string tool_call_id;              // tool only; not rendered
};

// Everything that decides the prompt text of a conversation.
struct ChatPrompt {
  std::vector<Message> messages;
  std::vector<Json> tools;  // each printed as received
  bool enable_thinking = true;
  bool preserve_thinking = false;  // keep the reasoning of every assistant turn
  bool add_vision_id = false;      // number the images and videos: "Picture 1: "
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the last assistant message is the beginning of the answer
};

// Reads `messages`, `tools`, `add_generation_prompt`, `continue_final_message`, `enable_thinking`,
// `preserve_thinking` and `add_vision_id` (each of these three also inside `chat_template_kwargs`, which
// wins) and `reasoning_effort` ("none" and "minimal" switch thinking off where enable_thinking is not given)
// of an OpenAI-shaped body. Other members are ignored; options left out or null keep their value in
// `defaults`. Throws Error(bad_input; unsupported: audio) whose param() is a path as "messages[0].content".
ChatPrompt parse_chat_prompt(const Json& body, const ChatPrompt& defaults = {});

// Why an answer ended.
enum class FinishReason { stop, length, tool_calls, cancelled };
std::string_view to_string(FinishReason reason) noexcept;

// A piece of a tool call while it streams. A call's first piece carries id and name.
struct ToolCallDelta {
  std::size_t index = 0;
  std::string id;
  std::string name;
  std::string arguments;  // the next piece of the arguments' JSON text
};

// What a step added to the answer. All text is valid UTF-8.
struct Delta {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;
  bool empty() const noexcept { return reasoning.empty() && content.empty() && tool_calls.empty(); }
};

// A finished answer: the fold of its deltas.
struct Answer {
  std::string reasoning;
  std::string content;
  struct Call {
    std::string id;
    std::string name;
    std::string arguments;  // JSON text of an object
  };
  std::vector<Call> tool_calls;
  FinishReason finish_reason = FinishReason::stop;
};

}  // namespace lily
