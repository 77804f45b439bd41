// The generator of random conversations.
#include "text/random_conversation.hpp"

#include <array>
#include <string_view>

namespace lily::text {
namespace {

using namespace std::string_view_literals;

constexpr std::array kPieces = {"word"sv,
                                "two words"sv,
                                "a"sv,
                                " "sv,
                                "  "sv,
                                "\n"sv,
                                "\n\n"sv,
                                "\t"sv,
                                "\r\n"sv,
                                "\v\f"sv,
                                "\x1c"sv,
                                "\x1f"sv,
                                "\u0085"sv,
                                "\u00a0"sv,
                                "\u1680"sv,
                                "\u2003"sv,
                                "\u2028"sv,
                                "\u202f"sv,
                                "\u205f"sv,
                                "\u3000"sv,
                                "\u200b"sv,
                                "\ufeff"sv,
                                "\u180e"sv,
                                "\x7f"sv,
                                "\x01"sv,
                                "\0"sv,
                                "é"sv,
                                "e\u0301"sv,
                                "漢字"sv,
                                "😀"sv,
                                "👩‍👧"sv,
                                "<"sv,
                                ">"sv,
                                "&"sv,
                                "'"sv,
                                "\""sv,
                                "\\"sv,
                                "/"sv,
                                "{{ x }}"sv,
                                "{% if %}"sv,
                                "{# c #}"sv,
                                "%s"sv,
                                "</b>"sv,
                                "<think>"sv,
                                "<think>\n"sv,
                                "<|im_end|>"sv,
                                "<|im_start|>system\n"sv,
                                "<tool_call>"sv,
                                "</tool_call>"sv,
                                "<tool_response>"sv,
                                "</tool_response>"sv,
                                "<|image_pad|>"sv,
                                "</parameter>"sv,
                                "<function=f>"sv};

// Spelled as Python prints them; other spellings are kept as sent, which the template cannot see.
constexpr std::array kNumbers = {"0"sv,
                                 "-1"sv,
                                 "3"sv,
                                 "1.5"sv,
                                 "0.1"sv,
                                 "2.0"sv,
                                 "1e+16"sv,
                                 "1e-05"sv,
                                 "-0.0"sv,
                                 "123456789012345678901234567890"sv,
                                 "0.30000000000000004"sv};

}  // namespace

std::size_t RandomConversations::below(std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
}

std::string RandomConversations::text() {
  std::string text;
  for (std::size_t count = below(7); count > 0; --count) text += kPieces[below(kPieces.size())];
  return text;
}

Json RandomConversations::value(int depth) {
  switch (below(depth > 0 ? 7 : 5)) {
    case 0:
      return {};
    case 1:
      return Json::boolean(one_in(2));
    case 2:
      return Json::number(std::string(kNumbers[below(kNumbers.size())]));
    case 3:
    case 4:
      return Json::string(text());
    case 5: {
      Json list = Json::array();
      for (std::size_t count = below(4); count > 0; --count) list.as_array().push_back(value(depth - 1));
      return list;
    }
    default: {
      Json object = Json::object();
      for (std::size_t count = below(4); count > 0; --count) object.set(text(), value(depth - 1));
      return object;
    }
  }
}

Json RandomConversations::tool() {
  Json function = Json::object({{"name", Json::string(std::string("f").append(text()))}});
  if (one_in(2)) function.set("description", Json::string(text()));
  if (one_in(2)) function.set("parameters", value(3));
  Json tool = Json::object({{"type", Json::string("function")}, {"function", function}});
  if (one_in(5)) tool.set("strict", value(1));
  return tool;
}

Json RandomConversations::content(bool may_hold_images) {
  if (one_in(12)) return {};
  if (!one_in(4)) return Json::string(text());
  Json parts = Json::array();
  for (std::size_t count = below(4); count > 0; --count) {
    Json part = Json::object();
    const std::size_t kind = may_hold_images ? below(8) : 7;
    if (kind == 0) {
      part = Json::parse(R"({"type": "image_url", "image_url": {"url": "x"}})");
    } else if (kind == 1) {
      part = Json::parse(one_in(2) ? R"({"type": "image"})" : R"({"image": "x"})");
    } else if (kind == 2) {
      part = Json::parse(one_in(2) ? R"({"type": "video"})" : R"({"type": "video", "video": "x"})");
    } else if (kind == 3 && one_in(10)) {
      part = Json::parse(R"({"type": "input_audio", "input_audio": {}})");  // both must refuse
    } else {
      if (!one_in(4)) part.set("type", Json::string("text"));
      part.set("text", Json::string(text()));
    }
    parts.as_array().push_back(part);
  }
  return parts;
}

void RandomConversations::add_message(const std::string& role, Json::Array& variables, Json::Array& body) {
  Json message = Json::object({{"role", Json::string(role)}});
  const bool images = role == "user" || role == "tool" || (role == "system" && one_in(20));
  if (!one_in(30)) message.set("content", content(images));
  Json sent = message;
  if (role == "user" && one_in(60)) {
    message.set("content",
                Json::string(std::string("<tool_response>").append(text()).append("</tool_response>")));
    sent = message;
  }
  if (role == "tool") sent.set("tool_call_id", Json::string("c"));
  if (role == "assistant") {
    if (one_in(8)) {  // reasoning in the content: as the model writes it, or seldom in odd places
      const std::string odd = one_in(4) ? text() : "";
      message.set("content", Json::string(odd + "<think>\n" + text() + "\n</think>\n\n" + text()));
      sent = message;
    }
    if (one_in(2)) {
      const Json reasoning = Json::string(text());
      message.set("reasoning_content", reasoning);
      sent.set(one_in(2) ? "reasoning" : "reasoning_content", reasoning);
    } else if (one_in(8)) {
      message.set("reasoning_content", {});
    }
    if (one_in(3)) {
      Json calls = Json::array();
      Json sent_calls = Json::array();
      for (std::size_t count = below(4); count > 0; --count) {
        Json function = Json::object({{"name", Json::string(text())}});
        Json sent_function = function;
        if (!one_in(6)) {
          Json arguments = Json::object();
          for (std::size_t members = below(4); members > 0; --members) arguments.set(text(), value(2));
          function.set("arguments", arguments);
          sent_function.set("arguments", one_in(2) ? arguments : Json::string(arguments.dump()));
        }
        const bool bare = one_in(6);
        calls.as_array().push_back(bare ? function : Json::object({{"function", function}}));
        sent_calls.as_array().push_back(
            bare ? sent_function
                 : Json::object({{"type", Json::string("function")}, {"function", sent_function}}));
      }
      message.set("tool_calls", calls);
      sent.set("tool_calls", sent_calls);
    }
  }
  variables.push_back(message);
  body.push_back(sent);
}

Conversation RandomConversations::next() {
  Json::Array variables;
  Json::Array body;
  const auto add = [&](const std::string& role) { add_message(role, variables, body); };
  if (one_in(2)) add(one_in(40) ? "developer" : "system");
  if (one_in(60)) add("system");
  if (!one_in(60)) add("user");
  for (std::size_t count = below(7); count > 0; --count) {
    switch (below(one_in(40) ? 7 : 5)) {
      case 0:
        add("user");
        break;
      case 1:
      case 2:
        add("assistant");
        break;
      case 3:
      case 4:
        for (std::size_t results = 1 + below(3); results > 0; --results) add("tool");
        break;
      case 5:
        add("system");
        break;
      default:
        add("function");
        break;
    }
  }
  Conversation conversation;
  conversation.variables.set("messages", Json::array(variables));
  conversation.body.set("messages", Json::array(body));
  if (one_in(3)) {
    Json tools = Json::array();
    for (std::size_t count = below(3); count > 0; --count) tools.as_array().push_back(tool());
    conversation.variables.set("tools", tools);
    conversation.body.set("tools", tools);
  }
  Json kwargs = Json::object();
  for (const char* option : {"enable_thinking", "preserve_thinking", "add_vision_id"}) {
    if (!one_in(3)) continue;
    const Json on = Json::boolean(one_in(2));
    conversation.variables.set(option, on);
    (one_in(2) ? kwargs : conversation.body).set(option, on);
  }
  if (!kwargs.as_object().empty()) conversation.body.set("chat_template_kwargs", kwargs);
  const bool answer = !one_in(4);
  conversation.variables.set("add_generation_prompt", Json::boolean(answer));
  if (!answer || one_in(2)) conversation.body.set("add_generation_prompt", Json::boolean(answer));
  return conversation;
}

}  // namespace lily::text
