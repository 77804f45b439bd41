// Rules of answer parsing beyond the recorded cases: what streams when, what ends a value, what is no call.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "text/parser_driver.hpp"
#include "text/stop_matcher.hpp"

namespace lily::text {
namespace {

OutputParser::Options with_tools(const std::string& properties = R"({"path": {"type": "string"},
    "content": {"type": "string"}, "n": {"type": "integer"}})") {
  OutputParser::Options options;
  options.tools.push_back(Json::parse(R"({"type": "function", "function": {"name": "write", "parameters":
      {"type": "object", "properties": )" +
                                      properties + R"(, "$defs": {"Color": {"enum": ["red", "blue"]},
      "Count": {"type": "integer"}, "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"$ref": "#/$defs/Loop"}]}}}}})"));
  return options;
}

std::string call_with(const std::string& body) {
  return "<tool_call>\n<function=write>\n" + body + "\n</function>\n</tool_call>";
}

std::string only_arguments(const Answer& answer) {
  EXPECT_EQ(answer.tool_calls.size(), 1u) << describe(answer);
  return answer.tool_calls.empty() ? "" : answer.tool_calls[0].arguments;
}

std::string value_as(const std::string& schema, const std::string& value) {
  const std::string text = call_with("<parameter=v>\n" + value + "\n</parameter>");
  return only_arguments(parse_in_all_cuts(with_tools("{\"v\": " + schema + "}"), text, false));
}

TEST(ParserValues, AreConvertedByTheirSchema) {
  const std::string table[][3] = {
      {R"({"type": "integer"})", "007", R"({"v": 7})"},
      {R"({"type": "integer"})", "-0012.000", R"({"v": -12})"},
      {R"({"type": "integer"})", "7.5", R"({"v": "7.5"})"},
      {R"({"type": "integer"})", "1e3", R"({"v": "1e3"})"},
      {R"({"type": "integer"})", "Null", R"({"v": null})"},
      {R"({"type": "integer"})", "", R"({"v": ""})"},
      {R"({"type": "integer"})", "- 5", R"({"v": "- 5"})"},
      {R"({"type": "number"})", " 2.50\t", R"({"v": 2.50})"},
      {R"({"type": "number"})", "+1e-5", R"({"v": 1e-5})"},
      {R"({"type": "number"})", "-Infinity", R"({"v": "-Infinity"})"},
      {R"({"type": "number"})", "1e999", R"({"v": "1e999"})"},
      {R"({"type": "boolean"})", "FALSE", R"({"v": false})"},
      {R"({"type": "boolean"})", "yes", R"({"v": "yes"})"},
      {R"({"type": "object"})", "{\"a\": 1}", R"({"v": {"a": 1}})"},
      {R"({"type": "object"})", "[1]", R"({"v": "[1]"})"},
      {R"({"type": "array"})", "[1, \"é\"]", R"({"v": [1, "é"]})"},
      {R"({"type": ["integer", "string"]})", "5", R"({"v": "5"})"},
      {R"({"type": ["string", "null"]})", "null", R"({"v": null})"},
      {R"({"type": ["string", "null"]})", "nullable", R"({"v": "nullable"})"},
      {R"({"type": ["string", "null"]})", "nul", R"({"v": "nul"})"},
      {R"({"type": "string", "nullable": true})", "NULL", R"({"v": null})"},
      {R"({"anyOf": [{"type": "string"}, {"type": "object"}]})", "{\"a\": 1}", R"({"v": {"a": 1}})"},
      {R"({"anyOf": [{"type": "string"}, {"type": "object"}]})", "{not json", R"({"v": "{not json"})"},
      {R"({"oneOf": [{"type": "integer"}, {"type": "boolean"}]})", "true", R"({"v": true})"},
      {R"({"$ref": "#/$defs/Count"})", "5", R"({"v": 5})"},
      {R"({"allOf": [{"$ref": "#/$defs/Color"}]})", "5", R"({"v": "5"})"},
      {R"({"$ref": "#/$defs/Loop"})", "5", R"({"v": "5"})"},
      {R"({"$ref": "#/$defs/None"})", "5", R"({"v": "5"})"},
      {R"({"enum": [1, 2]})", "2", R"({"v": 2})"},
      {R"({"enum": ["1", "2"]})", "2", R"({"v": "2"})"},
      {R"({"const": false})", "false", R"({"v": false})"},
      {R"({})", "null", R"({"v": "null"})"},
      {R"({})", "{\"a\": 1", R"({"v": "{\"a\": 1"})"},
      {R"({})", "[1, {}]", R"({"v": [1, {}]})"},
      {R"(true)", "12", R"({"v": "12"})"},
  };
  for (const auto& [schema, value, arguments] : table)
    EXPECT_EQ(value_as(schema, value), arguments) << schema << value;
}

TEST(ParserValues, MayHoldTheMarkupItself) {
  // XML files and texts about tool calls: a closing tag ends the value only where the call goes on after it.
  for (const std::string value :
       {"<config>\n<parameter name=\"a\">1</parameter>\n</config>", "a</parameter> b", "x </function> y",
        "</tool_call>, they say", "<parameter=other>\n1\n</parameter>!", "<tool_call> inside",
        "<parameter=content>again", "</parameter\n>", "<", "a<b>c</d"}) {
    std::string expected = R"({"path": "/x", "content": )";
    append_json_string(expected, value);
    const std::string text =
        call_with("<parameter=path>\n/x\n</parameter>\n<parameter=content>\n" + value + "\n</parameter>");
    EXPECT_EQ(only_arguments(parse_in_all_cuts(with_tools(), text, false)), expected + "}");
  }
}

TEST(ParserValues, LoseOneLineBreakAtEitherEnd) {
  const auto value = [](const std::string& between) {
    const std::string text = call_with("<parameter=path>" + between + "</parameter>");
    return Json::parse(only_arguments(parse_in_all_cuts(with_tools(), text, false)))
        .find("path")
        ->as_string();
  };
  EXPECT_EQ(value("\r\na\r\n\r\n"), "a\r\n");
  EXPECT_EQ(value("\n\r\n"), "");
  EXPECT_EQ(value("\n"), "");
  EXPECT_EQ(value("\r\r"), "\r\r");
  EXPECT_EQ(value("  a  "), "  a  ");
  EXPECT_EQ(value("a\n\n\n"), "a\n\n");
}

TEST(ParserStream, PassesStringsOnBeforeTheyEnd) {
  OutputParser parser(with_tools());
  Answer seen;
  fold(parser.push("<tool_call>\n<function=write>\n<parameter=n>\n4"), seen);
  ASSERT_EQ(seen.tool_calls.size(), 1u);
  EXPECT_EQ(seen.tool_calls[0].name, "write");
  EXPECT_EQ(seen.tool_calls[0].arguments, "") << "a number waits for its end";
  fold(parser.push("2\n</parameter>\n<parameter=content>\nfirst \"line\"\nsecond"), seen);
  EXPECT_EQ(seen.tool_calls[0].arguments, R"({"n": 42, "content": "first \"line\"\nsecond)");
  fold(parser.push("\n</para"), seen);
  EXPECT_EQ(seen.tool_calls[0].arguments, R"({"n": 42, "content": "first \"line\"\nsecond)");
  fold(parser.push("meter>\n</function>"), seen);
  EXPECT_EQ(seen.tool_calls[0].arguments, R"({"n": 42, "content": "first \"line\"\nsecond"})");
}

TEST(ParserStream, HoldsContentBackOnlyWhileItMayBeMarkup) {
  OutputParser parser(with_tools());
  EXPECT_EQ(parser.push("a < b").content, "a < b");
  EXPECT_EQ(parser.push(" <tool").content, "");
  EXPECT_EQ(parser.push("box>").content, " <toolbox>");
  EXPECT_EQ(parser.push("\n<function=wri").content, "") << "white space waits with what may be a call";
  EXPECT_EQ(parser.push("ng>").content, "");
  EXPECT_EQ(parser.push(" x").content, "\n<function=wring> x");
}

TEST(ParserStream, KnowsWhenItReasons) {
  OutputParser::Options options;
  options.in_think = true;
  OutputParser parser(options);
  EXPECT_TRUE(parser.in_reasoning());
  EXPECT_EQ(parser.push("\nhm\n\n").reasoning, "hm");
  EXPECT_TRUE(parser.in_reasoning());
  EXPECT_EQ(parser.push("so\n</think").reasoning, "\n\nso");
  EXPECT_TRUE(parser.in_reasoning());
  EXPECT_TRUE(parser.push(">\n\n").empty());
  EXPECT_FALSE(parser.in_reasoning());
  EXPECT_EQ(parser.push("yes").content, "yes");
  EXPECT_TRUE(parser.finish(false).empty());
  EXPECT_TRUE(parser.finish(false).empty()) << "a second end adds nothing";
  EXPECT_TRUE(parser.push("more").empty());
  EXPECT_EQ(parser.answer().content, "yes");
}

TEST(ParserCalls, SurviveMissingAndExtraMarkup) {
  const std::pair<std::string, std::string> table[] = {
      // No closing tag of the parameter, the function, the call.
      {"<tool_call>\n<function=write>\n<parameter=path>\n/x\n</function>\n</tool_call>", R"({"path": "/x"})"},
      {"<tool_call>\n<function=write>\n<parameter=path>\n/x\n</parameter>\n</tool_call>",
       R"({"path": "/x"})"},
      {"<tool_call>\n<function=write>\n<parameter=path>\n/x\n</parameter>\n", R"({"path": "/x"})"},
      {"<tool_call>\n<function=write>\n<parameter=path>\n/x\n</tool_call>", R"({"path": "/x"})"},
      {"<tool_call>\n<function=write>\n<parameter=path>\n/x\n", R"({"path": "/x"})"},
      {"<tool_call>\n<function=write>\n</tool_call>", "{}"},
      // No tag around the function, with and without an orphan closing tag.
      {"<function=write>\n<parameter=path>\n/x\n</parameter>\n</function>", R"({"path": "/x"})"},
      {"<function=write>\n</function>\n</tool_call>\n", "{}"},
      // A JSON object in the tags.
      {R"(<tool_call>{"name": "write", "arguments": {"path": "</tool_call>"}}</tool_call>)",
       R"({"path": "</tool_call>"})"},
      {R"(<tool_call>{"name": "write", "arguments": "{\"n\": 1.50}"})", R"({"n": 1.50})"},
  };
  for (const auto& [text, arguments] : table) {
    const Answer answer = parse_in_all_cuts(with_tools(), text, false);
    EXPECT_EQ(only_arguments(answer), arguments) << text;
    EXPECT_EQ(answer.content, "") << text;
    EXPECT_EQ(answer.finish_reason, FinishReason::tool_calls);
  }
}

TEST(ParserCalls, SeveralFunctionsMayShareOneWrapper) {
  const Answer answer =
      parse_in_all_cuts(with_tools(),
                        "<tool_call>\n<function=write>\n<parameter=n>\n1\n</parameter>\n</function>\n"
                        "<function=other>\n<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>",
                        false);
  ASSERT_EQ(answer.tool_calls.size(), 2u);
  EXPECT_EQ(answer.tool_calls[0].arguments, R"({"n": 1})");
  EXPECT_EQ(answer.tool_calls[1].name, "other");
  EXPECT_EQ(answer.tool_calls[1].arguments, R"({"n": "2"})");
}

TEST(ParserCalls, StrayTextInACallIsContent) {
  const Answer answer = parse_in_all_cuts(
      with_tools(), "I write.\n\n<tool_call>\n<function=write>\nnote\n</function>\n</tool_call>", false);
  EXPECT_TRUE(answer.tool_calls.empty()) << "a function whose body begins with text is no call";
  const std::string parameter = "<parameter=n>\n1\n</parameter>\n";
  const Answer repeated =
      parse_in_all_cuts(with_tools(), "I write.\n\n" + call_with(parameter + parameter) + "\nDone.", false);
  EXPECT_EQ(only_arguments(repeated), R"({"n": 1})");
  EXPECT_EQ(repeated.content, "I write.\n\n\n<parameter=n>\n1\n</parameter>\nDone.");
}

TEST(ParserCalls, TextAfterACallIsContent) {
  const std::string call = call_with("<parameter=n>\n1\n</parameter>");
  EXPECT_EQ(parse_in_all_cuts(with_tools(), "A.\n" + call + "\nB.\n", false).content, "A.\n\nB.");
  EXPECT_EQ(parse_in_all_cuts(with_tools(), "\n" + call + "\n\nB.", false).content, "B.");
  EXPECT_EQ(parse_in_all_cuts(with_tools(), "A." + call + "\n" + call + " \n", false).content, "A.");
}

TEST(ParserContent, KeepsWhatIsNoCallToTheByte) {
  for (const std::string text :
       {"<tool_call>", "<tool_call>\n", "a <tool_call> b", "<tool_call>\n<function=>\n</function>",
        " <function=write>\n", "<function=write>\n<parameter=path>\n/x\n</parameter>\nand so on",
        "text <function=write>\n</function>", "<function=write>\n<parameter=path>\n/x\n",
        "<tool_call>{\"name\": 5, \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"write\"}\n</tool_call> after", "<tool_call>{\"name\": \"wri",
        "<tool_call>{} <b>", "<tool_call>{\"a\": \"line\nbreak\"}", "</tool_call></function></parameter>",
        "  \n\n ", "\nHello \n", "<think>\nnot reasoning\n</think>",
        "<function=write>\n<parameter=path>\n<tool_call>\n"}) {
    const Answer answer = parse_in_all_cuts(with_tools(), text, false);
    EXPECT_EQ(answer.content, text);
    EXPECT_EQ(answer.finish_reason, FinishReason::stop);
  }
}

TEST(ParserLength, LeavesACallCutShortOut) {
  const std::string whole = "See.\n\n" + call_with("<parameter=path>\n/x\n</parameter>");
  const std::size_t begin = whole.find("<tool_call>") + std::string("<tool_call>").size();
  const std::size_t end = whole.find("</function>") + std::string("</function>").size();
  for (std::size_t size = begin; size <= whole.size(); ++size) {
    SCOPED_TRACE(size);
    const Answer answer = parse_in_all_cuts(with_tools(), whole.substr(0, size), true);
    EXPECT_EQ(answer.content, "See.");
    EXPECT_EQ(answer.tool_calls.size(), size < end ? 0u : 1u);
    EXPECT_EQ(answer.finish_reason, FinishReason::length);
  }
}

TEST(ParserLength, LeavesUnwrappedAndJsonCallsCutShortOut) {
  for (const std::string text :
       {"See.\n<function=write>\n<parameter=path>\n/x", "See.\n<function=write>\n<par",
        "See. <tool_call>{\"name\": \"write\", \"argu"}) {
    const Answer answer = parse_in_all_cuts(with_tools(), text, true);
    EXPECT_EQ(answer.content, "See.") << text;
    EXPECT_TRUE(answer.tool_calls.empty()) << text;
  }
  EXPECT_EQ(parse_in_all_cuts(with_tools(), "a <tool", true).content, "a <tool") << "no call yet";
}

TEST(ParserStops, ActOnContentOnly) {
  OutputParser::Options options = with_tools();
  options.stop_strings = {"END"};
  options.in_think = true;
  const std::string call = call_with("<parameter=path>\nEND\n</parameter>");
  const Answer answer =
      parse_in_all_cuts(options, "END\n</think>\n\nA EN." + call + "\nB END " + call, false);
  EXPECT_EQ(answer.reasoning, "END");
  EXPECT_EQ(answer.content, "A EN.\nB");
  EXPECT_EQ(only_arguments(answer), R"({"path": "END"})");
  EXPECT_EQ(answer.finish_reason, FinishReason::tool_calls);
}

TEST(ParserStops, DoNotReachAcrossACall) {
  OutputParser::Options options = with_tools();
  options.stop_strings = {"ab"};
  const Answer answer =
      parse_in_all_cuts(options, std::string("a") + call_with("<parameter=n>\n1\n</parameter>") + "b", false);
  EXPECT_EQ(answer.content, "ab");
}

TEST(ParserStops, SeeWhiteSpaceBeforeACall) {
  OutputParser::Options options = with_tools();
  options.stop_strings = {"\n\n"};
  const Answer answer =
      parse_in_all_cuts(options, "Done.\n\n" + call_with("<parameter=n>\n1\n</parameter>"), false);
  EXPECT_EQ(answer.content, "Done.");
  EXPECT_TRUE(answer.tool_calls.empty());
}

TEST(ParserStops, EndTheAnswerWhateverEndedIt) {
  OutputParser::Options options;
  options.stop_strings = {"END", ""};
  OutputParser parser(options);
  EXPECT_EQ(parser.push("one E").content, "one");
  EXPECT_FALSE(parser.stopped());
  EXPECT_TRUE(parser.push("ND two").empty());
  EXPECT_TRUE(parser.stopped());
  EXPECT_TRUE(parser.push("three").empty());
  EXPECT_EQ(parser.finish(true).content, " ");
  EXPECT_EQ(parser.answer().content, "one ");
  EXPECT_EQ(parser.answer().finish_reason, FinishReason::stop);
}

TEST(StopMatcherSearch, AgreesWithTheObviousSearch) {
  std::uint32_t seed = 1;
  const auto random = [&](std::uint32_t below) {
    return (seed = seed * 1664525 + 1013904223) / 65536 % below;
  };
  for (int round = 0; round < 20'000; ++round) {
    const auto word = [&](std::uint32_t longest) {
      std::string text(random(longest + 1), 'a');
      for (char& c : text) c = static_cast<char>('a' + random(2));
      return text;
    };
    const std::vector<std::string> stops = {word(4), word(4), word(3)};
    const std::string text = word(14);
    std::string expected = text;
    for (std::size_t end = 1, best = 0; end <= text.size() && best == 0; ++end) {
      for (const std::string& stop : stops) {
        if (!stop.empty() && text.substr(0, end).ends_with(stop)) best = std::max(best, stop.size());
      }
      if (best > 0) expected = text.substr(0, end - best);
    }
    StopMatcher matcher(stops);
    std::string found;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t size = 1 + random(3);
      found += matcher.push(std::string_view(text).substr(at, size));
      at += size;
    }
    if (!matcher.matched()) found += matcher.flush();
    ASSERT_EQ(found, expected) << text << " with " << stops[0] << ", " << stops[1] << ", " << stops[2];
  }
}

}  // namespace
}  // namespace lily::text
