// Conversations as clients send them: what is understood, and which field is named when it is not.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "lily/chat.hpp"
#include "lily/error.hpp"

namespace lily {
namespace {

ChatPrompt parse(const std::string& body) { return parse_chat_prompt(Json::parse(body)); }

ChatPrompt parse_message(const std::string& message) { return parse("{\"messages\": [" + message + "]}"); }

ChatPrompt parse_options(const std::string& options) {
  return parse("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], " + options + "}");
}

std::string refused_field(const std::string& body) {
  try {
    parse(body);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << body;
    EXPECT_LT(std::string(error.what()).size(), 200u) << "no more than 200 bytes of a request in an error";
    return error.param();
  }
  return "nothing was refused";
}

std::string arguments_of(const std::string& arguments) {
  const ChatPrompt prompt =
      parse_message(R"({"role": "assistant", "tool_calls": [{"id": "c", "type": "function",
      "function": {"name": "f")" +
                    arguments + "}}]}");
  return prompt.messages.at(0).tool_calls.at(0).arguments.dump();
}

TEST(ChatPromptMessages, ContentIsAStringAListOrNothing) {
  EXPECT_EQ(parse_message(R"({"role": "user", "content": "a"})").messages[0].content.at(0).text, "a");
  EXPECT_TRUE(parse_message(R"({"role": "user", "content": null})").messages[0].content.empty());
  EXPECT_TRUE(parse_message(R"({"role": "user"})").messages[0].content.empty());
  const auto parts = parse_message(R"({"role": "user", "content": [
      {"type": "text", "text": "a"}, {"text": "b"}, {"type": "input_text", "text": "c"},
      {"type": "image_url", "image_url": {"url": "x"}}, {"image": "x"}, {"type": "video"}, {"video": "x"},
      {"type": "text", "text": "d", "image_url": null}]})")
                         .messages[0]
                         .content;
  ASSERT_EQ(parts.size(), 8u);
  EXPECT_EQ(parts[0].text + parts[1].text + parts[2].text + parts[7].text, "abcd");
  using Kind = ContentPart::Kind;
  const Kind kinds[] = {Kind::text,  Kind::text,  Kind::text,  Kind::image,
                        Kind::image, Kind::video, Kind::video, Kind::text};
  for (std::size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i].kind, kinds[i]) << i;
}

TEST(ChatPromptMessages, ReasoningComesUnderEitherName) {
  EXPECT_EQ(parse_message(R"({"role": "assistant", "reasoning_content": "r"})").messages[0].reasoning, "r");
  EXPECT_EQ(parse_message(R"({"role": "assistant", "reasoning": "r"})").messages[0].reasoning, "r");
  EXPECT_EQ(parse_message(R"({"role": "assistant", "reasoning": "a", "reasoning_content": "b"})")
                .messages[0]
                .reasoning,
            "b");
  EXPECT_EQ(parse_message(R"({"role": "assistant", "reasoning": "a", "reasoning_content": null})")
                .messages[0]
                .reasoning,
            "a");
  EXPECT_EQ(parse_message(R"({"role": "assistant", "reasoning": null})").messages[0].reasoning, std::nullopt);
  EXPECT_EQ(parse_message(R"({"role": "user", "reasoning": "r"})").messages[0].reasoning, std::nullopt);
}

TEST(ChatPromptMessages, ArgumentsAreAStringOrAnObject) {
  EXPECT_EQ(arguments_of(R"(, "arguments": "{\"b\": 1.50, \"a\": [true]}")"), R"({"b":1.50,"a":[true]})");
  EXPECT_EQ(arguments_of(R"(, "arguments": {"b": 1.50, "a": [true]})"), R"({"b":1.50,"a":[true]})");
  for (const char* none : {"", R"(, "arguments": "")", R"(, "arguments": " \n")", R"(, "arguments": null)",
                           R"(, "arguments": "null")", R"(, "arguments": "{}")", R"(, "arguments": {})"}) {
    EXPECT_EQ(arguments_of(none), "{}") << none;
  }
}

TEST(ChatPromptMessages, ArgumentsThatHoldNoObjectAreKeptAsText) {
  EXPECT_EQ(arguments_of(R"(, "arguments": "{\"cmd\": \"ls -")"), R"({"arguments":"{\"cmd\": \"ls -"})");
  EXPECT_EQ(arguments_of(R"(, "arguments": "[1]")"), R"({"arguments":"[1]"})");
  const std::string deep = std::string(500, '[');
  EXPECT_EQ(arguments_of(", \"arguments\": \"" + deep + "\""), "{\"arguments\":\"" + deep + "\"}");
}

TEST(ChatPromptMessages, CallsMayStandWithoutTheFunctionLevel) {
  const auto calls =
      parse_message(R"({"role": "assistant", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]})")
          .messages[0]
          .tool_calls;
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments.dump(), R"({"a":1})");
  EXPECT_TRUE(parse_message(R"({"role": "assistant", "tool_calls": null})").messages[0].tool_calls.empty());
  EXPECT_TRUE(parse_message(R"({"role": "assistant", "tool_calls": []})").messages[0].tool_calls.empty());
}

TEST(ChatPromptOptions, HaveTheirDefaults) {
  const ChatPrompt prompt = parse_options("\"foo\": {\"bar\": 1}");
  EXPECT_TRUE(prompt.enable_thinking);
  EXPECT_FALSE(prompt.preserve_thinking);
  EXPECT_TRUE(prompt.add_generation_prompt);
  EXPECT_FALSE(prompt.continue_final_message);
  EXPECT_TRUE(prompt.tools.empty());
  EXPECT_TRUE(parse_options("\"tools\": null").tools.empty());
  EXPECT_TRUE(parse_options("\"tools\": []").tools.empty());
  EXPECT_TRUE(parse_options("\"chat_template_kwargs\": null, \"enable_thinking\": null").enable_thinking);

  ChatPrompt defaults;
  defaults.enable_thinking = false;
  defaults.preserve_thinking = true;
  const ChatPrompt kept = parse_chat_prompt(Json::parse(R"({"messages": [{"role": "user"}]})"), defaults);
  EXPECT_FALSE(kept.enable_thinking);
  EXPECT_TRUE(kept.preserve_thinking);
}

TEST(ChatPromptOptions, AreReadWhereverClientsPutThem) {
  EXPECT_FALSE(parse_options("\"enable_thinking\": false").enable_thinking);
  EXPECT_FALSE(parse_options("\"chat_template_kwargs\": {\"enable_thinking\": false}").enable_thinking);
  EXPECT_TRUE(
      parse_options("\"chat_template_kwargs\": {\"enable_thinking\": true}, \"enable_thinking\": false")
          .enable_thinking);
  EXPECT_TRUE(parse_options("\"chat_template_kwargs\": {\"preserve_thinking\": true}").preserve_thinking);
  EXPECT_TRUE(parse_options("\"chat_template_kwargs\": {\"add_vision_id\": true}").add_vision_id);
  EXPECT_FALSE(parse_options("\"add_generation_prompt\": false").add_generation_prompt);
  EXPECT_TRUE(parse_options("\"continue_final_message\": true").continue_final_message);
}

TEST(ChatPromptOptions, ReasoningEffortSwitchesThinking) {
  EXPECT_FALSE(parse_options("\"reasoning_effort\": \"none\"").enable_thinking);
  EXPECT_FALSE(parse_options("\"reasoning_effort\": \"minimal\"").enable_thinking);
  EXPECT_TRUE(parse_options("\"reasoning_effort\": \"low\"").enable_thinking);
  EXPECT_TRUE(parse_options("\"reasoning_effort\": null").enable_thinking);
  EXPECT_TRUE(parse_options("\"reasoning_effort\": \"none\", \"enable_thinking\": true").enable_thinking);
}

TEST(ChatPromptRefusals, NameTheField) {
  const auto message = [](const std::string& text) {
    return "{\"messages\": [{\"role\": \"user\"}, " + text + "]}";
  };
  const auto options = [](const std::string& text) {
    return "{\"messages\": [{\"role\": \"user\"}], " + text + "}";
  };
  const auto call = [&](const std::string& text) {
    return message("{\"role\": \"assistant\", \"tool_calls\": [" + text + "]}");
  };
  const std::pair<std::string, std::string> cases[] = {
      {"[]", ""},
      {"{}", "messages"},
      {R"({"messages": {}})", "messages"},
      {R"({"messages": "hi"})", "messages"},
      {R"({"messages": []})", "messages"},
      {message("5"), "messages[1]"},
      {message("{}"), "messages[1].role"},
      {message(R"({"role": 5})"), "messages[1].role"},
      {message(R"({"role": "function"})"), "messages[1].role"},
      {message("{\"role\": \"" + std::string(5000, 'x') + "\"}"), "messages[1].role"},
      {message(R"({"role": "user", "content": 5})"), "messages[1].content"},
      {message(R"({"role": "user", "content": {}})"), "messages[1].content"},
      {message(R"({"role": "user", "content": ["a"]})"), "messages[1].content[0]"},
      {message(R"({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "smell"}]})"),
       "messages[1].content[1].type"},
      {message(R"({"role": "user", "content": [{"type": "video_url"}]})"), "messages[1].content[0].type"},
      {message(R"({"role": "user", "content": [{}]})"), "messages[1].content[0].type"},
      {message(R"({"role": "user", "content": [{"type": 1}]})"), "messages[1].content[0].type"},
      {message(R"({"role": "user", "content": [{"type": "text"}]})"), "messages[1].content[0].text"},
      {message(R"({"role": "user", "content": [{"type": "text", "text": null}]})"),
       "messages[1].content[0].text"},
      {message(R"({"role": "assistant", "reasoning_content": 5})"), "messages[1].reasoning_content"},
      {message(R"({"role": "assistant", "reasoning": []})"), "messages[1].reasoning"},
      {message(R"({"role": "assistant", "tool_calls": {}})"), "messages[1].tool_calls"},
      {message(R"({"role": "tool", "tool_call_id": 5})"), "messages[1].tool_call_id"},
      {call("5"), "messages[1].tool_calls[0]"},
      {call("{}"), "messages[1].tool_calls[0].name"},
      {call(R"({"function": 5})"), "messages[1].tool_calls[0].function"},
      {call(R"({"function": {}})"), "messages[1].tool_calls[0].function.name"},
      {call(R"({"type": "custom", "function": {"name": "f"}})"), "messages[1].tool_calls[0].type"},
      {call(R"({"id": 5, "function": {"name": "f"}})"), "messages[1].tool_calls[0].id"},
      {call(R"({"function": {"name": "f", "arguments": [1]}})"),
       "messages[1].tool_calls[0].function.arguments"},
      {options(R"("tools": {})"), "tools"},
      {options(R"("tools": [5])"), "tools[0]"},
      {options(R"("tools": [{}])"), "tools[0].function"},
      {options(R"("tools": [{"type": "custom"}])"), "tools[0].type"},
      {options(R"("tools": [{"type": "function", "function": {}}])"), "tools[0].function.name"},
      {options(R"("tools": [{"type": "function", "function": {"name": ""}}])"), "tools[0].function.name"},
      {options(R"("enable_thinking": "false")"), "enable_thinking"},
      {options(R"("enable_thinking": 0)"), "enable_thinking"},
      {options(R"("chat_template_kwargs": [])"), "chat_template_kwargs"},
      {options(R"("chat_template_kwargs": {"enable_thinking": "maybe"})"),
       "chat_template_kwargs.enable_thinking"},
      {options(R"("chat_template_kwargs": {"preserve_thinking": 1})"),
       "chat_template_kwargs.preserve_thinking"},
      {options(R"("reasoning_effort": "extreme")"), "reasoning_effort"},
      {options(R"("reasoning_effort": 1)"), "reasoning_effort"},
      {options(R"("continue_final_message": "yes")"), "continue_final_message"},
      {options(R"("add_generation_prompt": 1)"), "add_generation_prompt"},
  };
  for (const auto& [body, field] : cases) EXPECT_EQ(refused_field(body), field) << body.substr(0, 200);
}

}  // namespace
}  // namespace lily
