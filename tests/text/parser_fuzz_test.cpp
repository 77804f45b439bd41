// Whatever a model writes: no error, the same answer in every cut, nothing lost, time linear in the text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "text/parser_driver.hpp"
#include "text/renderer.hpp"

namespace lily::text {
namespace {

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
}

const std::vector<Json>& tools() {
  static const std::vector<Json> kTools = {
      Json::parse(R"({"type": "function", "function": {"name": "read", "parameters": {"type": "object",
          "properties": {"path": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"},
                         "z": {"type": ["string", "null"]}, "u": {}}}}})"),
      Json::parse(R"({"type": "function", "function": {"name": "ls"}})")};
  return kTools;
}

const std::vector<std::string>& fragments() {
  static const std::vector<std::string> kFragments = {
      "<tool_call>",
      "</tool_call>",
      "<function=read>",
      "<function=ls>",
      "<function=nope>",
      "<function=>",
      "<function=",
      "</function>",
      "<parameter=path>",
      "<parameter=n>",
      "<parameter=o>",
      "<parameter=z>",
      "<parameter=u>",
      "<parameter=other>",
      "<parameter=>",
      "<parameter=",
      "</parameter>",
      "<think>",
      "</think>",
      "\n",
      "\n",
      "\n",
      "\n\n",
      "\r\n",
      "\r",
      " ",
      "<",
      ">",
      "/",
      "{",
      "}",
      "\"",
      "\\",
      "null",
      "true",
      "42",
      "[1]",
      "{\"a\": ",
      "é",
      "漢字",
      "😀",
      "STOP",
      "ST",
      "</",
      "<tool",
      "</para",
      "<tool_call>\n<function=read>\n<parameter=path>\n",
      "\n</parameter>\n</function>\n</tool_call>",
      "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"x\"}}",
      "<tool_call>\n<function=ls>\n</function>\n</tool_call>",
      std::string(70, '\n'),
      std::string(1, '\0')};
  return kFragments;
}

// Markup in any order, between words that can be found again.
std::string shuffle_of_markup(Random& random, std::vector<std::string>& words) {
  std::string text;
  for (std::size_t count = below(random, 24); count > 0; --count) {
    if (below(random, 4) == 0) {
      words.push_back(fmt::format("w{}w", words.size()));
      text += words.back();
    } else {
      text += fragments()[below(random, fragments().size())];
    }
  }
  return text;
}

std::vector<std::string_view> random_cuts(Random& random, std::string_view text) {
  std::vector<std::string_view> pieces;
  const std::vector<std::string_view> all = characters(text);
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.size(), begin + 1 + below(random, 9));
    const char* last = all[end - 1].data() + all[end - 1].size();
    pieces.emplace_back(all[begin].data(), static_cast<std::size_t>(last - all[begin].data()));
    begin = end;
  }
  return pieces;
}

std::string all_text_of(const Answer& answer) {
  std::string text = answer.reasoning + "|" + answer.content;
  for (const Answer::Call& call : answer.tool_calls) text += "|" + call.name + "|" + call.arguments;
  return text;
}

TEST(ParserFuzz, ShuffledMarkupIsTotalAndTheSameInEveryCut) {
  Random random(20260);
  std::size_t calls = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::vector<std::string> words;
    const std::string text = shuffle_of_markup(random, words);
    OutputParser::Options options;
    options.in_think = below(random, 2) == 0;
    if (below(random, 8) != 0) options.tools = tools();
    if (below(random, 4) == 0) options.stop_strings = {"STOP", "\n\n\n"};
    const bool by_length = below(random, 3) == 0;
    SCOPED_TRACE(Json::string(text).dump_python());

    const ParserRun whole = run_parser(options, {text}, by_length);
    ParserRun pieces = run_parser(options, random_cuts(random, text), by_length);
    ASSERT_EQ(describe(pieces.answer), describe(whole.answer));
    if (by_length && pieces.stream.tool_calls.size() == pieces.answer.tool_calls.size() + 1) {
      pieces.stream.tool_calls.pop_back();  // shown, then left out
    }
    ASSERT_EQ(describe(pieces.stream), describe(whole.answer));

    for (const Answer::Call& call : whole.answer.tool_calls) {
      ++calls;
      ASSERT_FALSE(call.name.empty());
      ASSERT_TRUE(Json::parse(call.arguments).is_object()) << call.arguments;
    }
    if (!by_length && options.stop_strings.empty()) {
      const std::string kept = all_text_of(whole.answer);
      for (const std::string& word : words) ASSERT_NE(kept.find(word), std::string::npos) << "lost " << word;
    }
    ASSERT_TRUE(!options.tools.empty() || whole.answer.tool_calls.empty());
    const FinishReason otherwise =
        whole.answer.tool_calls.empty() ? FinishReason::stop : FinishReason::tool_calls;
    ASSERT_TRUE(by_length || whole.answer.finish_reason == otherwise);
  }
  EXPECT_GT(calls, 10'000u) << "the shuffles must reach the inside of calls";
}

TEST(ParserFuzz, RandomBytesAreHarmless) {
  Random random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(below(random, 40), '\0');
    for (char& c : text) c = static_cast<char>(below(random, 256));
    OutputParser::Options options;
    options.tools = tools();
    options.in_think = below(random, 2) == 0;
    const ParserRun whole = run_parser(options, {text}, false);
    ASSERT_EQ(describe(whole.stream), describe(whole.answer));
  }
}

// A call rendered into the history, as if the model had written it, reads back as the same call.
TEST(ParserFuzz, ReadsBackWhatTheRendererWrites) {
  const std::vector<std::string> pieces = {"a",
                                           "  ",
                                           "\n",
                                           "\t",
                                           "\r\n",
                                           "<",
                                           ">",
                                           "</b>",
                                           "</parameter>;",
                                           "</function>;",
                                           "<parameter=x>",
                                           "&amp;",
                                           "\\n",
                                           "\"",
                                           "'",
                                           "é",
                                           "漢",
                                           "😀",
                                           "{",
                                           "}",
                                           "null",
                                           "true",
                                           "12",
                                           "<think>",
                                           "</think>",
                                           "<|im_end|>",
                                           "<tool_call>;"};
  Random random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string value;
    for (std::size_t count = below(random, 12); count > 0; --count)
      value += pieces[below(random, pieces.size())];
    if (!value.empty() && value.back() == '\r') value += 'x';
    ToolCall call{.id = "c", .name = "read", .arguments = Json::object()};
    call.arguments.set("path", Json::string(value));
    call.arguments.set("n", Json::integer(static_cast<std::int64_t>(below(random, 1000)) - 500));
    call.arguments.set(
        "o", Json::object({{value, Json::array({Json::boolean(true), Json(), Json::string(value)})}}));
    Message assistant;
    assistant.role = Role::assistant;
    assistant.tool_calls.push_back(call);
    ChatPrompt prompt;
    prompt.messages.push_back(assistant);
    prompt.add_generation_prompt = false;
    std::string text = render(prompt).text();
    text.erase(0, text.find("<tool_call>"));
    text.resize(text.size() - std::string_view("<|im_end|>\n").size());

    OutputParser::Options options;
    options.tools = tools();
    const ParserRun run = run_parser(options, random_cuts(random, text), false);
    ASSERT_EQ(run.answer.tool_calls.size(), 1u) << text;
    ASSERT_EQ(Json::parse(run.answer.tool_calls[0].arguments).dump(), call.arguments.dump()) << text;
    ASSERT_EQ(run.answer.content, "");
  }
}

std::string repeated(std::string_view unit, std::size_t size) {
  std::string text;
  text.reserve(size + unit.size());
  while (text.size() < size) text += unit;
  return text;
}

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Quadratic work on these would take hours, so the bounds can be loose.
TEST(ParserTime, IsLinearInTheText) {
  const std::string call = "<tool_call>\n<function=read>\n<parameter=path>\n";
  const std::vector<std::pair<std::string, std::string>> texts = {
      {"", "<"},
      {"", "\n"},
      {"", " "},
      {"", "<tool_call>"},
      {"", "<tool_call>\n"},
      {"", "<function=read>\n<parameter=path>\n"},
      {"", "<function=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
      {"", "<tool_call>{\""},
      {"<tool_call>{\"", "\\\""},
      {"", "<tool_call>{\"<"},
      {"<tool_call>", "{"},
      {call, "</parameter>"},
      {call, "\n"},
      {call, "\r"},
      {call, "<parameter=n>"},
      {call, "</function>\n"},
      {call, "x"},
      {"<tool_call>\n<function=read>\n<parameter=n>", " "},
      {"<tool_call>\n<function=read>\n<parameter=z>null", " "},
      {call + "\n</parameter>\n", "stray "},
      {call + "\n</parameter></function>", "\n"}};
  for (const auto& [head, unit] : texts) {
    SCOPED_TRACE(head + unit);
    OutputParser::Options options;
    options.tools = tools();
    options.stop_strings = {std::string(1000, '<') + "x", std::string(1000, '\n') + "x"};
    const double start = processor_seconds();
    const std::string whole = head + repeated(unit, 2'000'000);
    run_parser(options, {whole}, false);
    const std::string cut = head + repeated(unit, 200'000);
    run_parser(options, characters(cut), false);
    EXPECT_LT(processor_seconds() - start, 5);
  }
}

TEST(ParserTime, TenMegabytesOfAngleBrackets) {
  OutputParser::Options options;
  options.tools = tools();
  const std::string text = repeated("<", 10'000'000);
  const double start = processor_seconds();
  EXPECT_EQ(run_parser(options, {text}, false).answer.content.size(), text.size());
  EXPECT_LT(processor_seconds() - start, 10);
}

}  // namespace
}  // namespace lily::text
