// A suite of tasks that a program can judge: what `lily eval --suite` runs and prints.
//
// A suite is a file of JSON lines. A line holds `kind`, the members of a chat request (`messages`, `tools`,
// `enable_thinking`), and `expect` with exactly one of
//   calls     the tool calls, all of them, in this order: [{"name", "arguments"}]
//   equals    the whole answer
//   contains  a part of the answer
//   json      the value of the answer, read as JSON
//   one_of    the answers that are right
// Where no calls are expected there must be none, and a broken answer is never right. With `continues: true`
// the messages go on from those of the line before, whose tools and thinking hold.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lily/chat.hpp"
#include "lily/engine.hpp"
#include "lily/json.hpp"

namespace lily {

struct Expectation {
  enum class Form { calls, equals, contains, json, one_of };
  Form form = Form::equals;
  Json value;  // of the member of that name
};

struct SuiteTask {
  std::string kind;
  ChatPrompt prompt;
  Expectation expect;
};

// Throws Error: not_found, device; bad_input naming the line and what is wrong with it. At least one task.
std::vector<SuiteTask> read_suite(const std::filesystem::path& file);

struct Judgement {
  bool passed = false;
  // No text that a person could read: empty without calls, control characters other than line breaks, U+FFFD,
  // or cut off at the limit.
  bool broken = false;
};

Judgement judge(const Expectation& expect, const Answer& answer);

struct SuiteOptions {
  int limit = 0;          // tasks of each kind, the first ones; 0: all
  int max_tokens = 1024;  // of an answer; the longest right one in lily-mini's suite has about 540
};

struct TaskOutcome {
  std::string kind;
  int task = 0;        // from 1, within its kind
  std::string wanted;  // for people
  std::string answer;  // its content, then its calls as JSON
  Judgement judgement;
};

// Success by kind, in the order in which kinds first occur.
struct SuiteRow {
  std::string kind;
  int tasks = 0;
  int passed = 0;
  int broken = 0;
  double share() const { return tasks > 0 ? static_cast<double>(passed) / tasks : 0; }
};

// Answers every task greedily; `outcome` hears of each. Throws as Engine::generate does.
std::vector<SuiteRow> run_suite(Engine& engine, const std::vector<SuiteTask>& tasks,
                                const SuiteOptions& options,
                                const std::function<void(const TaskOutcome&)>& outcome,
                                const Progress& progress);

// All rows together; its kind is "total".
SuiteRow total(const std::vector<SuiteRow>& rows);

}  // namespace lily
