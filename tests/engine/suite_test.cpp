// The judge of answers judges rightly, and a suite is read and tallied as it says.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lily/error.hpp"
#include "lily/suite.hpp"
#include "support/raises.hpp"
#include "support/scripted_engine.hpp"

namespace lily {
namespace {

Answer says(std::string content) {
  Answer answer;
  answer.content = std::move(content);
  return answer;
}

Answer calls(const std::vector<Answer::Call>& calls) {
  Answer answer;
  answer.tool_calls = calls;
  answer.finish_reason = FinishReason::tool_calls;
  return answer;
}

bool passes(Expectation::Form form, const char* value, const Answer& answer) {
  return judge({form, Json::parse(value)}, answer).passed;
}

class SuiteFile {
 public:
  explicit SuiteFile(const std::string& text)
      : path(std::filesystem::path(::testing::TempDir()) /
             (std::string("lily-suite-") + ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::ofstream(path) << text;
  }
  ~SuiteFile() { std::filesystem::remove(path); }
  SuiteFile(const SuiteFile&) = delete;
  SuiteFile& operator=(const SuiteFile&) = delete;
  const std::filesystem::path path;
};

TEST(Judge, CallsAreEqualInNameArgumentsNumberAndOrder) {
  constexpr auto kForm = Expectation::Form::calls;
  constexpr const char* kTwo =
      R"([{"name": "a", "arguments": {"x": 1.50, "y": "z"}}, {"name": "b", "arguments": {}}])";
  const Answer::Call a{"1", "a", R"({"y": "z", "x": 1.5})"};
  const Answer::Call b{"2", "b", "{}"};
  EXPECT_TRUE(passes(kForm, kTwo, calls({a, b})));
  EXPECT_FALSE(passes(kForm, kTwo, calls({b, a})));
  EXPECT_FALSE(passes(kForm, kTwo, calls({a})));
  EXPECT_FALSE(passes(kForm, kTwo, calls({a, b, b})));
  EXPECT_FALSE(passes(kForm, kTwo, calls({{"1", "a", R"({"x": "1.5", "y": "z"})"}, b})));
  EXPECT_FALSE(passes(kForm, kTwo, calls({{"1", "A", a.arguments}, b})));
  EXPECT_FALSE(passes(kForm, kTwo, says("a b")));
}

TEST(Judge, WordsAreExactAndComeWithoutCalls) {
  using Form = Expectation::Form;
  EXPECT_TRUE(passes(Form::equals, R"("It is 5.")", says("It is 5.")));
  EXPECT_FALSE(passes(Form::equals, R"("It is 5.")", says("It is 5. ")));
  EXPECT_TRUE(passes(Form::contains, R"("F6")", says("The recipe is F6.")));
  EXPECT_FALSE(passes(Form::contains, R"("F6")", says("The recipe is F 6.")));
  EXPECT_TRUE(passes(Form::json, R"({"a": [1]})", says(" {\"a\":[1.0]}\n")));
  EXPECT_FALSE(passes(Form::json, R"({"a": [1]})", says("{\"a\": [1]} ok")));
  EXPECT_FALSE(passes(Form::json, R"({"a": [1]})", says("{\"a\": [1")));
  EXPECT_TRUE(passes(Form::one_of, R"(["Yes.", "No."])", says("No.")));
  EXPECT_FALSE(passes(Form::one_of, R"(["Yes.", "No."])", says("Yes. No.")));

  Answer both = calls({{"1", "a", "{}"}});
  both.content = "No.";
  EXPECT_FALSE(passes(Form::equals, R"("No.")", both));
  EXPECT_FALSE(judge({Form::equals, Json::string("No.")}, both).broken);
}

TEST(Judge, ABrokenAnswerIsNeverRight) {
  for (const char* text : {"", "a\x01", "tab\t", "\x7F", "\xEF\xBF\xBD"}) {
    const Judgement judgement = judge({Expectation::Form::contains, Json::string("")}, says(text));
    EXPECT_TRUE(judgement.broken) << text;
    EXPECT_FALSE(judgement.passed) << text;
  }
  EXPECT_FALSE(judge({Expectation::Form::contains, Json::string("")}, says("zwei\nZeilen: äöü")).broken);
  Answer cut = says("!!!!");
  cut.finish_reason = FinishReason::length;
  EXPECT_TRUE(judge({Expectation::Form::contains, Json::string("!")}, cut).broken);
}

TEST(Suite, ReadsTheMembersOfAChatRequest) {
  const SuiteFile file(
      R"({"kind": "k", "messages": [{"role": "user", "content": "Hi"}], "tools": [{"type": "function", "function": {"name": "f"}}], "enable_thinking": false, "expect": {"equals": "Hello"}})"
      "\n\n"
      R"({"kind": "l", "messages": [{"role": "user", "content": "Hi"}], "expect": {"json": 1}})");
  const std::vector<SuiteTask> tasks = read_suite(file.path);
  ASSERT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks[0].kind, "k");
  EXPECT_EQ(tasks[0].prompt.messages.size(), 1U);
  EXPECT_EQ(tasks[0].prompt.tools.size(), 1U);
  EXPECT_FALSE(tasks[0].prompt.enable_thinking);
  EXPECT_EQ(tasks[0].expect.form, Expectation::Form::equals);
  EXPECT_TRUE(tasks[1].prompt.enable_thinking);
}

TEST(Suite, ALineContinuesTheOneBeforeIt) {
  const SuiteFile file(
      R"({"kind": "k", "messages": [{"role": "user", "content": "1"}], "tools": [{"type": "function", "function": {"name": "f"}}], "enable_thinking": false, "expect": {"equals": "a"}})"
      "\n"
      R"({"kind": "l", "continues": true, "messages": [{"role": "assistant", "content": "a"}, {"role": "user", "content": "2"}], "expect": {"equals": "b"}})"
      "\n"
      R"({"kind": "k", "continues": true, "messages": [{"role": "assistant", "content": "b"}, {"role": "user", "content": "3"}], "expect": {"equals": "c"}})"
      "\n"
      R"({"kind": "k", "continues": false, "messages": [{"role": "user", "content": "4"}], "expect": {"equals": "d"}})");
  const std::vector<SuiteTask> tasks = read_suite(file.path);
  ASSERT_EQ(tasks.size(), 4U);
  EXPECT_EQ(tasks[1].kind, "l");
  EXPECT_EQ(tasks[1].prompt.messages.size(), 3U);
  EXPECT_EQ(tasks[2].prompt.messages.size(), 5U);
  EXPECT_EQ(tasks[2].prompt.tools.size(), 1U);
  EXPECT_FALSE(tasks[2].prompt.enable_thinking);
  EXPECT_EQ(tasks[3].prompt.messages.size(), 1U);
  EXPECT_TRUE(tasks[3].prompt.tools.empty());
  EXPECT_TRUE(tasks[3].prompt.enable_thinking);
}

TEST(Suite, NamesTheLineThatIsWrong) {
  const std::string good =
      R"({"kind": "k", "messages": [{"role": "user", "content": "Hi"}], "expect": {"equals": "a"}})"
      "\n";
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"{", "byte"},
      {R"({"messages": [], "expect": {"equals": "a"}})", "kind"},
      {R"({"kind": "k", "messages": [{"role": "nobody"}], "expect": {"equals": "a"}})", "nobody"},
      {R"({"kind": "k", "messages": [{"role": "user", "content": "x"}]})", "expect"},
      {R"({"kind": "k", "messages": [{"role": "user", "content": "x"}], "expect": {}})", "exactly one"},
      {R"({"kind": "k", "messages": [{"role": "user", "content": "x"}], "expect": {"equals": "a", "json": 1}})",
       "holds 2"},
      {R"({"kind": "k", "messages": [{"role": "user", "content": "x"}], "expect": {"equals": 1}})", "number"},
      {R"({"kind": "k", "messages": [{"role": "user", "content": "x"}], "expect": {"calls": [{"name": "a"}]}})",
       "arguments"},
      {R"({"kind": "k", "continues": true, "tools": [], "messages": [], "expect": {"equals": "a"}})",
       "tools"},
      {R"({"kind": "k", "continues": 1, "messages": [], "expect": {"equals": "a"}})", "number"}};
  for (const auto& [line, complaint] : cases) {
    const SuiteFile file(good + line);
    const Error error = testing::raised([&] { read_suite(file.path); });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << line;
    testing::expect_mentions(error, "line 2");
    testing::expect_mentions(error, complaint);
  }
  const SuiteFile first(R"({"kind": "k", "continues": true, "messages": [], "expect": {"equals": "a"}})");
  testing::expect_mentions(testing::raised([&] { read_suite(first.path); }), "no line before it");
  const SuiteFile empty("\n");
  testing::expect_mentions(testing::raised([&] { read_suite(empty.path); }), "no task");
  EXPECT_EQ(testing::raised([] { read_suite("/nowhere/suite.jsonl"); }).kind(), ErrorKind::not_found);
}

SuiteTask task(const char* kind, const char* wanted) {
  return {kind,
          std::get<ChatPrompt>(testing::ask("Hi", false).prompt),
          {Expectation::Form::equals, Json::string(wanted)}};
}

TEST(Suite, TalliesByKindAndStopsAtTheLimitOfEach) {
  const std::vector<SuiteTask> tasks = {task("right", "Yes."), task("wrong", "No."), task("right", "Yes."),
                                        task("right", "Yes.")};
  const auto engine = testing::make_scripted_engine({.tokens = testing::ids_of("Yes.<|im_end|>")});
  std::vector<TaskOutcome> outcomes;
  std::uint64_t last_done = 0;
  const std::vector<SuiteRow> rows = run_suite(
      *engine, tasks, {.limit = 2}, [&](const TaskOutcome& outcome) { outcomes.push_back(outcome); },
      [&](std::string_view, std::uint64_t done, std::uint64_t all, std::string_view) {
        EXPECT_EQ(done, ++last_done);
        EXPECT_EQ(all, 3U);
      });
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].kind, "right");
  EXPECT_EQ(rows[0].tasks, 2);
  EXPECT_EQ(rows[0].passed, 2);
  EXPECT_EQ(rows[1].passed, 0);
  EXPECT_EQ(rows[1].broken, 0);
  EXPECT_EQ(total(rows).tasks, 3);
  EXPECT_DOUBLE_EQ(total(rows).share(), 2.0 / 3);
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[1].kind, "wrong");
  EXPECT_EQ(outcomes[1].wanted, "\"No.\"");
  EXPECT_EQ(outcomes[1].answer, "Yes.");
  EXPECT_EQ(outcomes[2].task, 2);
}

TEST(Suite, AnAnswerThatDoesNotEndIsCutAndBroken) {
  const auto engine = testing::make_scripted_engine({.tokens = testing::ids_of("!")});
  const std::vector<SuiteRow> rows = run_suite(*engine, {task("k", "!!!")}, {.max_tokens = 3}, {}, {});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].broken, 1);
  EXPECT_EQ(rows[0].passed, 0);
}

}  // namespace
}  // namespace lily
