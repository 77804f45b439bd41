// Reads a conversation from an OpenAI-shaped request body, naming the field of everything it refuses.
#include <fmt/format.h>

#include <array>

#include "lily/chat.hpp"
#include "lily/error.hpp"
#include "text/strip.hpp"
#include "text/utf8.hpp"

namespace lily {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::bad_input, fmt::format("{} {}", path, why), path);
}

// A client's string in a message: short, and cut between characters.
std::string in_quotes(std::string_view text) {
  const std::string_view shown = text::utf8_beginning(text, 40);
  return fmt::format("\"{}{}\"", shown, shown.size() < text.size() ? "..." : "");
}

const Json* member(const Json& object, std::string_view key) {  // null counts as absent
  const Json* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const Json& require_object(const Json& value, const std::string& path) {
  if (!value.is_object()) refuse(path, fmt::format("must be an object, found {}", value.kind_name()));
  return value;
}

const Json::Array& require_list(const Json& value, const std::string& path) {
  if (!value.is_array()) refuse(path, fmt::format("must be a list, found {}", value.kind_name()));
  return value.as_array();
}

const std::string& require_string(const Json* value, const std::string& path) {
  if (value == nullptr) refuse(path, "is missing; it must be a string");
  if (!value->is_string()) refuse(path, fmt::format("must be a string, found {}", value->kind_name()));
  return value->as_string();
}

std::string optional_string(const Json& object, std::string_view key, const std::string& path) {
  const Json* value = member(object, key);
  return value == nullptr ? "" : require_string(value, fmt::format("{}.{}", path, key));
}

Role parse_role(const Json& message, const std::string& path) {
  constexpr std::array<std::pair<std::string_view, Role>, 5> kRoles = {{{"system", Role::system},
                                                                        {"developer", Role::developer},
                                                                        {"user", Role::user},
                                                                        {"assistant", Role::assistant},
                                                                        {"tool", Role::tool}}};
  const std::string& name = require_string(member(message, "role"), path + ".role");
  for (const auto& [known, role] : kRoles) {
    if (name == known) return role;
  }
  refuse(path + ".role",
         fmt::format("is {}; it must be system, developer, user, assistant or tool", in_quotes(name)));
}

// A part's `type` decides; parts without one are told by their keys, as the template tells them.
ContentPart parse_part(const Json& part, const std::string& path) {
  require_object(part, path);
  const Json* named = member(part, "type");
  std::string type;
  if (named != nullptr) {
    type = require_string(named, path + ".type");
  } else if (member(part, "image") != nullptr || member(part, "image_url") != nullptr) {
    type = "image";
  } else if (member(part, "video") != nullptr) {
    type = "video";
  } else if (part.find("text") != nullptr) {
    type = "text";
  } else {
    refuse(path + ".type", "is missing; it must be text, image_url or video");
  }
  if (type == "text" || type == "input_text" || type == "output_text") {
    return {.kind = ContentPart::Kind::text, .text = require_string(member(part, "text"), path + ".text")};
  }
  if (type == "image" || type == "image_url" || type == "input_image") {
    return {.kind = ContentPart::Kind::image, .text = {}};
  }
  if (type == "video") return {.kind = ContentPart::Kind::video, .text = {}};
  if (type == "input_audio") {
    throw Error(ErrorKind::unsupported, fmt::format("{}.type is input_audio; audio is not supported", path),
                path + ".type");
  }
  refuse(path + ".type", fmt::format("is {}; it must be text, image_url or video", in_quotes(type)));
}

std::vector<ContentPart> parse_content(const Json& message, const std::string& path) {
  std::vector<ContentPart> parts;
  const Json* content = member(message, "content");
  if (content == nullptr) return parts;
  const std::string content_path = path + ".content";
  if (content->is_string()) {
    parts.push_back({.kind = ContentPart::Kind::text, .text = content->as_string()});
    return parts;
  }
  if (!content->is_array()) {
    refuse(content_path, fmt::format("must be a string or a list of parts, found {}", content->kind_name()));
  }
  for (std::size_t i = 0; i < content->as_array().size(); ++i) {
    parts.push_back(parse_part(content->as_array()[i], fmt::format("{}[{}]", content_path, i)));
  }
  return parts;
}

// Arguments travel as a string of JSON; an object is accepted as well. A string that holds no object, such as
// a call cut short by a token limit and stored by the client, must not end the session: the model sees the
// text.
Json parse_arguments(const Json* arguments, const std::string& path) {
  if (arguments == nullptr) return Json::object();
  if (arguments->is_object()) return *arguments;
  if (!arguments->is_string()) {
    refuse(path, fmt::format("must be a string of JSON or an object, found {}", arguments->kind_name()));
  }
  const std::string& text = arguments->as_string();
  if (text::strip(text).empty()) return Json::object();
  try {
    Json value = Json::parse(text);
    if (value.is_null()) return Json::object();
    if (value.is_object()) return value;
  } catch (const Error&) {
    // Not JSON: kept as text below.
  }
  return Json::object({{"arguments", *arguments}});
}

ToolCall parse_tool_call(const Json& value, const std::string& path) {
  require_object(value, path);
  if (const Json* type = member(value, "type")) {
    const std::string& name = require_string(type, path + ".type");
    if (name != "function")
      refuse(path + ".type", fmt::format("is {}; it must be function", in_quotes(name)));
  }
  const Json* function = member(value, "function");
  const std::string function_path = function == nullptr ? path : path + ".function";
  const Json& call = function == nullptr ? value : require_object(*function, function_path);
  return {.id = optional_string(value, "id", path),
          .name = require_string(member(call, "name"), function_path + ".name"),
          .arguments = parse_arguments(member(call, "arguments"), function_path + ".arguments")};
}

Message parse_message(const Json& value, const std::string& path) {
  require_object(value, path);
  Message message;
  message.role = parse_role(value, path);
  message.content = parse_content(value, path);
  if (message.role == Role::assistant) {
    for (const char* key : {"reasoning", "reasoning_content"}) {  // the second name wins when both are given
      if (const Json* reasoning = member(value, key)) {
        message.reasoning = require_string(reasoning, fmt::format("{}.{}", path, key));
      }
    }
    if (const Json* calls = member(value, "tool_calls")) {
      const std::string calls_path = path + ".tool_calls";
      const Json::Array& list = require_list(*calls, calls_path);
      for (std::size_t i = 0; i < list.size(); ++i) {
        message.tool_calls.push_back(parse_tool_call(list[i], fmt::format("{}[{}]", calls_path, i)));
      }
    }
  } else if (message.role == Role::tool) {
    message.tool_call_id = optional_string(value, "tool_call_id", path);
  }
  return message;
}

std::vector<Json> parse_tools(const Json& body) {
  const Json* tools = member(body, "tools");
  if (tools == nullptr) return {};
  const Json::Array& list = require_list(*tools, "tools");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    require_object(list[i], path);
    if (const Json* type = member(list[i], "type")) {
      const std::string& name = require_string(type, path + ".type");
      if (name != "function")
        refuse(path + ".type", fmt::format("is {}; it must be function", in_quotes(name)));
    }
    const std::string function_path = path + ".function";
    const Json* function = member(list[i], "function");
    if (function == nullptr) refuse(function_path, "is missing; it must be an object");
    require_object(*function, function_path);
    if (require_string(member(*function, "name"), function_path + ".name").empty()) {
      refuse(function_path + ".name", "is empty; a function needs a name");
    }
  }
  return list;
}

void read_switch(const Json& object, std::string_view key, const std::string& prefix,
                 std::optional<bool>& out) {
  const Json* value = member(object, key);
  if (value == nullptr) return;
  const std::string path = prefix + std::string(key);
  if (!value->is_boolean()) refuse(path, fmt::format("must be true or false, found {}", value->kind_name()));
  out = value->as_boolean();
}

// Thinking is on or off for this model; efforts between are accepted and mean on.
std::optional<bool> thinking_of_effort(const Json& body) {
  const Json* value = member(body, "reasoning_effort");
  if (value == nullptr) return std::nullopt;
  const std::string& effort = require_string(value, "reasoning_effort");
  if (effort == "none" || effort == "minimal") return false;
  for (const char* known : {"low", "medium", "high", "xhigh"}) {
    if (effort == known) return true;
  }
  refuse("reasoning_effort",
         fmt::format("is {}; it must be none, minimal, low, medium, high or xhigh", in_quotes(effort)));
}

}  // namespace

ChatPrompt parse_chat_prompt(const Json& body, const ChatPrompt& defaults) {
  if (!body.is_object()) {
    throw Error(ErrorKind::bad_input, fmt::format("the body must be an object, found {}", body.kind_name()));
  }
  ChatPrompt prompt = defaults;
  const Json* messages = member(body, "messages");
  if (messages == nullptr) refuse("messages", "is missing; it must be a list");
  prompt.messages.clear();
  for (const Json& message : require_list(*messages, "messages")) {
    prompt.messages.push_back(parse_message(message, fmt::format("messages[{}]", prompt.messages.size())));
  }
  if (prompt.messages.empty()) refuse("messages", "is empty; it needs at least one message");
  prompt.tools = parse_tools(body);

  static const Json kNone = Json::object();
  const Json* kwargs = member(body, "chat_template_kwargs");
  const Json& options = kwargs == nullptr ? kNone : require_object(*kwargs, "chat_template_kwargs");
  const auto read = [&](std::string_view key, std::optional<bool> value, bool& out) {
    read_switch(body, key, "", value);
    read_switch(options, key, "chat_template_kwargs.", value);
    if (value) out = *value;
  };
  read("enable_thinking", thinking_of_effort(body), prompt.enable_thinking);
  read("preserve_thinking", std::nullopt, prompt.preserve_thinking);
  read("add_vision_id", std::nullopt, prompt.add_vision_id);
  const auto read_plain = [&](std::string_view key, bool& out) {
    std::optional<bool> value;
    read_switch(body, key, "", value);
    if (value) out = *value;
  };
  read_plain("add_generation_prompt", prompt.add_generation_prompt);
  read_plain("continue_final_message", prompt.continue_final_message);
  return prompt;
}

}  // namespace lily
