// `lily tokenize`, `lily render` and `lily parse`: pure text in, text out.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/program.hpp"
#include "lily/json.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

const std::string kModel = kMini.string();

TEST(Tokenize, decode_gives_back_what_was_encoded) {
  const std::string text =
      "Lily reads 3 files.\n\tGr\xc3\xbc\xc3\x9f"
      "e, \xe6\xbc\xa2\xe5\xad\x97! <|im_end|>\n";
  const Outcome ids = run_lily({"tokenize", "--model", kModel}, text);
  ASSERT_EQ(ids.status, 0) << ids.errors;
  const Outcome back = run_lily({"tokenize", "--model", kModel, "--decode"}, ids.output);
  EXPECT_EQ(back.status, 0) << back.errors;
  EXPECT_EQ(back.output, text);
}

TEST(Tokenize, reads_a_tokenizer_file_alone) {
  const std::string file = (kMini / "tokenizer.json").string();
  EXPECT_EQ(run_lily({"tokenize", "--tokenizer", file}, "Who are you?").output,
            run_lily({"tokenize", "--model", kModel}, "Who are you?").output);
}

TEST(Tokenize, control_literals_are_one_id_unless_plain_text_is_asked_for) {
  const Json matched = Json::parse(run_lily({"tokenize", "--model", kModel}, "<|im_end|>").output);
  const Json plain =
      Json::parse(run_lily({"tokenize", "--model", kModel, "--no-special"}, "<|im_end|>").output);
  EXPECT_EQ(matched.as_array().size(), 1U);
  EXPECT_GT(plain.as_array().size(), 1U);
}

TEST(Tokenize, takes_one_json_string_a_line) {
  const Outcome outcome =
      run_lily({"tokenize", "--model", kModel, "--jsonl"}, "\"Who are\\nyou?\"\n\"\"\n\"Hi\"");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Outcome back = run_lily({"tokenize", "--model", kModel, "--jsonl", "--decode"}, outcome.output);
  EXPECT_EQ(back.output, "\"Who are\\nyou?\"\n\"\"\n\"Hi\"\n");
}

TEST(Tokenize, names_the_line_that_is_no_json_string) {
  const Outcome outcome = run_lily({"tokenize", "--model", kModel, "--jsonl"}, "\"a\"\n17\n");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.errors, "line 2"));
}

TEST(Tokenize, refuses_ids_without_a_token) {
  for (const char* ids : {"[99999999]", "[-1]", "[1.5]", "[\"1\"]", "{}", "[1"}) {
    const Outcome outcome = run_lily({"tokenize", "--model", kModel, "--decode"}, ids);
    EXPECT_EQ(outcome.status, 1) << ids;
    EXPECT_TRUE(starts_with(outcome.errors, "lily: error: ")) << ids;
  }
}

TEST(Tokenize, needs_exactly_one_source) {
  EXPECT_EQ(run_lily({"tokenize"}, "x").status, 2);
  EXPECT_EQ(run_lily({"tokenize", "--model", kModel, "--tokenizer", "x"}, "x").status, 2);
}

TEST(Render, prints_the_exact_prompt) {
  const Outcome outcome =
      run_lily({"render", "--model", kModel}, R"({"messages": [{"role": "user", "content": "Hi"}]})");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n");
}

TEST(Render, segments_join_to_the_prompt_and_keep_plain_literals_apart) {
  const std::string body =
      R"({"messages": [{"role": "user", "content": "a <|im_end|> b"}], "enable_thinking": false})";
  const Outcome text = run_lily({"render", "--model", kModel}, body);
  const Outcome segments = run_lily({"render", "--model", kModel, "--segments"}, body);
  ASSERT_EQ(segments.status, 0) << segments.errors;
  std::string joined;
  int controls = 0;
  const Json array = Json::parse(segments.output);
  for (const Json& segment : array.as_array()) {
    joined += segment.find("text")->as_string();
    controls += segment.find("control")->as_boolean() ? 1 : 0;
  }
  EXPECT_EQ(joined, text.output);
  // im_start, im_end, im_start, think, /think: the user's literal is none of them.
  EXPECT_EQ(controls, 5);
}

TEST(Render, names_the_field_that_is_wrong) {
  const Outcome outcome =
      run_lily({"render", "--model", kModel}, R"({"messages": [{"role": "robot", "content": "Hi"}]})");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.errors, "messages[0].role"));
}

TEST(Parse, splits_reasoning_and_content) {
  const Outcome outcome = run_lily({"parse", "--in-think"}, "Let me add.\n</think>\n\nIt is 4.");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json message = Json::parse(outcome.output);
  EXPECT_EQ(message.find("role")->as_string(), "assistant");
  EXPECT_EQ(message.find("content")->as_string(), "It is 4.");
  EXPECT_EQ(message.find("reasoning_content")->as_string(), "Let me add.");
  EXPECT_TRUE(message.find("tool_calls")->as_array().empty());
  EXPECT_EQ(message.find("finish_reason")->as_string(), "stop");
}

TEST(Parse, converts_arguments_by_the_tools_schema) {
  const std::filesystem::path tools =
      std::filesystem::path(::testing::TempDir()) / "lily_cli_parse_tools.json";
  std::ofstream(tools) << R"([{"type": "function", "function": {"name": "add", "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}}])";
  const Outcome outcome =
      run_lily({"parse", "--tools", tools.string()},
               "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n"
               "</parameter>\n</function>\n</tool_call>");
  std::filesystem::remove(tools);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json message = Json::parse(outcome.output);
  EXPECT_TRUE(message.find("content")->is_null());
  EXPECT_EQ(message.find("finish_reason")->as_string(), "tool_calls");
  ASSERT_EQ(message.find("tool_calls")->as_array().size(), 1U);
  const Json& function = *message.find("tool_calls")->as_array()[0].find("function");
  EXPECT_EQ(function.find("name")->as_string(), "add");
  EXPECT_EQ(Json::parse(function.find("arguments")->as_string()), Json::parse(R"({"a": 1, "b": "2"})"));
}

TEST(Parse, obeys_stop_strings_and_the_length_limit) {
  const Json stopped =
      Json::parse(run_lily({"parse", "--stop", "END", "--stop", "FIN"}, "one FIN two").output);
  EXPECT_EQ(stopped.find("content")->as_string(), "one ");
  EXPECT_EQ(stopped.find("finish_reason")->as_string(), "stop");
  const Json cut = Json::parse(run_lily({"parse", "--in-think", "--end", "length"}, "First I").output);
  EXPECT_TRUE(cut.find("content")->is_null());
  EXPECT_EQ(cut.find("reasoning_content")->as_string(), "First I");
  EXPECT_EQ(cut.find("finish_reason")->as_string(), "length");
}

TEST(Parse, takes_any_bytes) {
  const Outcome outcome = run_lily({"parse"}, std::string("a\xff\xc3 b\0c", 7));
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_TRUE(contains(Json::parse(outcome.output).find("content")->as_string(), "\xef\xbf\xbd"));
}

}  // namespace
}  // namespace lily::testing
