// The renderer against the published template in real Jinja2, over random conversations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "lily/chat.hpp"
#include "lily/error.hpp"
#include "text/random_conversation.hpp"
#include "text/renderer.hpp"
#include "text/strip.hpp"
#include "text/tokenizer_fixture.hpp"

namespace lily::text {
namespace {

constexpr std::size_t kConversations = 12'000;

// A Python with jinja2, or nothing.
std::string python_with_jinja() {
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    if (std::system((python + " -c 'import jinja2' >/dev/null 2>&1").c_str()) == 0) return python;
  }
  return "";
}

std::string text_of(const Message& message) {
  std::string text;
  for (const ContentPart& part : message.content) {
    text += part.kind == ContentPart::Kind::text ? part.text : "<|vision_start|>";
  }
  return std::string(strip(text));
}

std::size_t occurrences(std::string_view text, std::string_view piece) {
  std::size_t count = 0;
  for (std::size_t at = text.find(piece); at != std::string_view::npos; at = text.find(piece, at + 1))
    ++count;
  return count;
}

// Why the render of a conversation may differ from the template's (docs/model.md, "Chat format"), or nothing.
std::string reason_to_deviate(const ChatPrompt& prompt) {
  bool query = false;
  for (std::size_t i = 0; i < prompt.messages.size(); ++i) {
    const Message& message = prompt.messages[i];
    const std::string text = text_of(message);
    if (message.role == Role::developer) return "developer message";
    if (message.role == Role::system && i > 0) return "system message after the first";
    if (message.role == Role::tool && i == 0) return "tool message first";
    if (message.role == Role::user) {
      query = true;
      if (text.starts_with("<tool_response>") && text.ends_with("</tool_response>"))
        return "user text in result tags";
    }
    if (message.role == Role::assistant && !message.reasoning && text.find("</think>") != std::string::npos) {
      const bool plain = text.starts_with("<think>") && occurrences(text, "<think>") == 1 &&
                         occurrences(text, "</think>") == 1;
      if (!plain) return "think tags inside an answer";
    }
  }
  return query ? "" : "no user message";
}

struct Ours {
  std::string text;
  std::string error;
  std::string deviation;
};

Ours render_body(const Json& body) {
  Ours ours;
  try {
    const ChatPrompt prompt = parse_chat_prompt(body);
    ours.deviation = reason_to_deviate(prompt);
    ours.text = render(prompt).text();
  } catch (const Error& error) {
    ours.error = error.what();
  }
  return ours;
}

TEST(TemplateDifferential, RandomConversationsRenderAsInJinja) {
  const std::string python = python_with_jinja();
  if (python.empty()) GTEST_SKIP() << "no python3 with jinja2 to render the published template with";
  const std::string conversations_path = LILY_BUILD_DIR "/template-conversations.jsonl";
  const std::string renders_path = LILY_BUILD_DIR "/template-renders.jsonl";

  RandomConversations random(36);
  std::vector<Conversation> conversations(kConversations);
  {
    std::ofstream file(conversations_path, std::ios::binary);
    for (Conversation& conversation : conversations) {
      conversation = random.next();
      file << conversation.variables.dump() << '\n';
    }
  }
  const std::string command = fmt::format(
      "{} '{}/tests/text/template_differential_test.py' '{}/qwen3.6-chat-template.jinja' '{}' '{}'", python,
      LILY_SOURCE_DIR, LILY_TEST_DATA, conversations_path, renders_path);
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::vector<Json> renders = read_json_lines(renders_path);
  ASSERT_EQ(renders.size(), kConversations);

  std::size_t equal = 0;
  std::size_t both_refuse = 0;
  std::map<std::string, std::size_t> deviations;
  for (std::size_t i = 0; i < kConversations; ++i) {
    const Ours ours = render_body(conversations[i].body);
    const Json* theirs = renders[i].find("text");
    if (theirs == nullptr && !ours.error.empty()) {
      ++both_refuse;
    } else if (theirs != nullptr && ours.error.empty() && ours.text == theirs->as_string()) {
      ++equal;
    } else {
      ASSERT_NE(ours.deviation, "") << conversations[i].body.dump_python() << "\n--- ours\n"
                                    << ours.text << ours.error << "\n--- the template's\n"
                                    << renders[i].dump_python();
      ++deviations[ours.deviation];
    }
  }
  std::size_t deviating = 0;
  for (const auto& [reason, count] : deviations) {
    deviating += count;
    RecordProperty("deviations: " + reason, static_cast<int>(count));
  }
  fmt::print("{} equal, {} refused by both, {} deviate by contract\n", equal, both_refuse, deviating);
  for (const auto& [reason, count] : deviations) fmt::print("  {}: {}\n", reason, count);
  EXPECT_GE(equal, 10'000u);
  EXPECT_LT(deviating, kConversations / 10);
  EXPECT_EQ(deviations.size(), 6u) << "every kind of deviation should occur";
}

}  // namespace
}  // namespace lily::text
