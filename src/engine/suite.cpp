// Runs a suite: every task one greedy request, tallied by kind.
#include "lily/suite.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace lily {
namespace {

SuiteRow& row_of(std::vector<SuiteRow>& rows, const std::string& kind) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const SuiteRow& row) { return row.kind == kind; });
  if (found != rows.end()) return *found;
  rows.push_back({.kind = kind});
  return rows.back();
}

// The tasks to run: the first `limit` of each kind.
std::vector<const SuiteTask*> chosen_tasks(const std::vector<SuiteTask>& tasks, int limit) {
  std::vector<SuiteRow> seen;
  std::vector<const SuiteTask*> chosen;
  for (const SuiteTask& task : tasks) {
    int& count = row_of(seen, task.kind).tasks;
    if (limit > 0 && count >= limit) continue;
    ++count;
    chosen.push_back(&task);
  }
  return chosen;
}

std::string text_of(const Answer& answer) {
  if (answer.tool_calls.empty()) return answer.content;
  Json calls = Json::array();
  for (const Answer::Call& call : answer.tool_calls) {
    Json json = Json::object();
    json.set("name", Json::string(call.name));
    json.set("arguments", Json::parse(call.arguments));
    calls.as_array().push_back(std::move(json));
  }
  return answer.content + calls.dump();
}

// What is expected, for people.
std::string text_of(const Expectation& expect) {
  if (expect.form != Expectation::Form::one_of) return expect.value.dump();
  return fmt::format("one of {} answers", expect.value.as_array().size());
}

}  // namespace

std::vector<SuiteRow> run_suite(Engine& engine, const std::vector<SuiteTask>& tasks,
                                const SuiteOptions& options,
                                const std::function<void(const TaskOutcome&)>& outcome,
                                const Progress& progress) {
  const std::vector<const SuiteTask*> chosen = chosen_tasks(tasks, options.limit);
  std::vector<SuiteRow> rows;
  for (std::size_t index = 0; index < chosen.size(); ++index) {
    const SuiteTask& task = *chosen[index];
    GenerationRequest request;
    request.prompt = task.prompt;
    request.sampling.temperature = 0.0F;
    request.max_tokens = options.max_tokens;
    const Answer answer = engine.generate(request, {}, {}).answer;

    SuiteRow& row = row_of(rows, task.kind);
    const Judgement judgement = judge(task.expect, answer);
    ++row.tasks;
    row.passed += judgement.passed ? 1 : 0;
    row.broken += judgement.broken ? 1 : 0;
    if (outcome) outcome({task.kind, row.tasks, text_of(task.expect), text_of(answer), judgement});
    if (progress) progress("suite", index + 1, chosen.size(), "tasks");
  }
  return rows;
}

SuiteRow total(const std::vector<SuiteRow>& rows) {
  SuiteRow all{.kind = "total"};
  for (const SuiteRow& row : rows) {
    all.tasks += row.tasks;
    all.passed += row.passed;
    all.broken += row.broken;
  }
  return all;
}

}  // namespace lily
