// What caches rely on: a prompt grows at its end, a replayed answer reads as it was written, ids are
// official.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lily/error.hpp"
#include "lily/text.hpp"
#include "support/text_checks.hpp"
#include "text/output_parser.hpp"
#include "text/random_conversation.hpp"
#include "text/renderer.hpp"
#include "text/tokenizer_fixture.hpp"

namespace lily::text {
namespace {

using lily::testing::starts_with;

bool is_system(const Message& message) {
  return message.role == Role::system || message.role == Role::developer;
}

bool has_role(const std::vector<Message>& messages, std::size_t from, Role role) {
  return std::any_of(messages.begin() + static_cast<std::ptrdiff_t>(from), messages.end(),
                     [&](const Message& message) { return message.role == role; });
}

// With the reasoning preserved, or as long as no new query comes, the render of the first messages begins the
// render of all of them. Only what shares a turn with its predecessor cannot be cut off from it.
TEST(RendererGrowth, IsAppendOnly) {
  RandomConversations random(8);
  std::size_t preserved = 0;
  std::size_t tool_loops = 0;
  for (int round = 0; round < 3'000; ++round) {
    ChatPrompt prompt;
    std::string whole;
    try {
      prompt = parse_chat_prompt(random.next().body);
      prompt.add_generation_prompt = false;
      whole = render(prompt).text();
    } catch (const Error&) {
      continue;  // conversations that the format cannot express are another test's
    }
    const std::vector<Message> messages = prompt.messages;
    for (std::size_t count = 1; count < messages.size(); ++count) {
      const bool shares_turn =
          (messages[count].role == Role::tool && messages[count - 1].role == Role::tool) ||
          (is_system(messages[count]) && is_system(messages[count - 1]));
      const bool new_query = has_role(messages, count, Role::user);
      if (shares_turn || (new_query && !prompt.preserve_thinking)) continue;
      prompt.messages.assign(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count));
      ASSERT_TRUE(starts_with(whole, render(prompt).text()));
      ++(prompt.preserve_thinking ? preserved : tool_loops);
    }
  }
  EXPECT_GT(preserved, 500u);
  EXPECT_GT(tool_loops, 1'000u);
}

// An answer read by the parser and sent back renders to the very text the model wrote.
TEST(RendererReplay, OfAnAnswerIsWhatTheModelWrote) {
  const std::string tools =
      R"([{"type": "function", "function": {"name": "write", "parameters": {"type": "object",
      "properties": {"path": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"}}}}}])";
  for (const std::string answer :
       {"I add.\n</think>\n\nIt is 4.", "\n</think>\n\nIt is 4.",
        "a\n\nb\n</think>\n\n<tool_call>\n<function=write>\n</function>\n</tool_call>",
        "r\n</think>\n\nSee:\n\n<tool_call>\n<function=write>\n<parameter=path>\n  "
        "/x\n\n</parameter>\n<parameter=n>\n-3\n"
        "</parameter>\n<parameter=o>\n{\"k\": [1.50, "
        "\"é\"]}\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
        "<function=write>\n<parameter=path>\n<b>&amp;\\n</b>\n</parameter>\n</function>\n</tool_call>"}) {
    Json body = Json::parse(R"({"messages": [{"role": "user", "content": "go"}], "tools": )" + tools + "}");
    ChatPrompt prompt = parse_chat_prompt(body);
    const RenderedPrompt rendered = render(prompt);
    OutputParser parser({.in_think = rendered.in_think, .tools = prompt.tools, .stop_strings = {}});
    parser.push(answer);
    parser.finish(false);

    // As the wire carries it back.
    Json reply = Json::object({{"role", Json::string("assistant")},
                               {"content", Json::string(parser.answer().content)},
                               {"reasoning_content", Json::string(parser.answer().reasoning)}});
    Json calls = Json::array();
    for (const Answer::Call& call : parser.answer().tool_calls) {
      calls.as_array().push_back(
          Json::object({{"id", Json::string(call.id)},
                        {"type", Json::string("function")},
                        {"function", Json::object({{"name", Json::string(call.name)},
                                                   {"arguments", Json::string(call.arguments)}})}}));
    }
    reply.set("tool_calls", calls);
    Json messages = *body.find("messages");
    messages.as_array().push_back(reply);
    body.set("messages", messages);
    const std::string replayed = render(parse_chat_prompt(body)).text();
    EXPECT_TRUE(starts_with(replayed, rendered.text() + answer + "<|im_end|>\n"));
  }
}

TEST(RendererIds, AreThoseOfTheOfficialTokenizer) {
  const auto protocol = TextProtocol::open_tokenizer(kRealTokenizerFile);
  const Json file = read_json(LILY_TEST_DATA "/qwen3.6-chat-template-cases.json");
  std::size_t checked = 0;
  for (const Json& record : file.find("cases")->as_array()) {
    const Json* text = record.find("rendered");
    // Typed literals are the one thing the official tokenizer reads otherwise.
    const std::string messages = record.find("messages")->dump();
    if (text == nullptr || messages.find("think>") != std::string::npos ||
        messages.find("<tool") != std::string::npos) {
      continue;
    }
    Json body = *record.find("options");
    body.set("messages", *record.find("messages"));
    body.set("tools", *record.find("tools"));
    if (body.find("add_generation_prompt") == nullptr)
      body.set("add_generation_prompt", Json::boolean(false));
    EXPECT_EQ(protocol->encode(render(parse_chat_prompt(body))), protocol->encode(text->as_string(), true))
        << record.find("name")->as_string();
    ++checked;
  }
  EXPECT_GE(checked, 25u);
}

}  // namespace
}  // namespace lily::text
