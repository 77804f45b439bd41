// The contracts of answer parsing, each in every cut of its text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "text/parser_driver.hpp"
#include "text/tokenizer_fixture.hpp"

namespace lily::text {
namespace {

OutputParser::Options options_of(const Json& input) {
  OutputParser::Options options;
  options.in_think = input.find("prompt_in_think")->as_boolean();
  options.tools = input.find("tools")->as_array();
  if (const Json* stops = input.find("stop_strings")) {
    for (const Json& stop : stops->as_array()) options.stop_strings.push_back(stop.as_string());
  }
  return options;
}

std::string text_or_nothing(const Json& value) { return value.is_null() ? "" : value.as_string(); }

std::string without_outer_breaks(std::string text) {
  text.erase(0, std::min(text.find_first_not_of('\n'), text.size()));
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

void expect_calls(const Answer& answer, const Json& expected) {
  ASSERT_EQ(answer.tool_calls.size(), expected.as_array().size()) << describe(answer);
  for (std::size_t i = 0; i < answer.tool_calls.size(); ++i) {
    const Json& call = expected.as_array()[i];
    EXPECT_EQ(answer.tool_calls[i].name, call.find("name")->as_string());
    const Json arguments = Json::parse(answer.tool_calls[i].arguments);
    EXPECT_TRUE(arguments == *call.find("arguments")) << arguments.dump_python();
  }
}

TEST(ParserContracts, HoldForEveryParserCase) {
  std::size_t cases = 0;
  for (const Json& line : read_json_lines(LILY_TEST_DATA "/cases.jsonl")) {
    if (line.find("kind")->as_string() != "parser") continue;
    ++cases;
    SCOPED_TRACE(line.find("id")->as_string());
    const Json& input = *line.find("input");
    const Answer answer = parse_in_all_cuts(options_of(input), input.find("text")->as_string(),
                                            input.find("end")->as_string() == "length");
    for (const auto& [check, value] : line.find("expect")->as_object()) {
      if (check == "content") {
        EXPECT_EQ(answer.content, text_or_nothing(value));
      } else if (check == "content_contains") {
        EXPECT_THAT(answer.content, testing::HasSubstr(value.as_string()));
      } else if (check == "reasoning_content") {
        EXPECT_EQ(without_outer_breaks(answer.reasoning), without_outer_breaks(text_or_nothing(value)));
      } else if (check == "finish_reason") {
        EXPECT_EQ(to_string(answer.finish_reason), value.as_string());
      } else if (check == "tool_calls") {
        expect_calls(answer, value);
      } else if (check == "arguments_text") {
        EXPECT_EQ(answer.tool_calls.at(0).arguments, value.as_string());
      } else {
        // Checked in every cut by parse_in_all_cuts, or no check at all.
        EXPECT_THAT(check, testing::AnyOf("no_exception", "stream_equals_buffered", "compare",
                                          "stream_checks", "note"));
      }
    }
  }
  EXPECT_EQ(cases, 47u);
}

}  // namespace
}  // namespace lily::text
