// Reads the tasks of a suite.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/mapped_file.hpp"
#include "lily/error.hpp"
#include "lily/suite.hpp"

namespace lily {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{256} << 20;

constexpr std::array<std::pair<std::string_view, Expectation::Form>, 5> kForms = {
    {{"calls", Expectation::Form::calls},
     {"equals", Expectation::Form::equals},
     {"contains", Expectation::Form::contains},
     {"json", Expectation::Form::json},
     {"one_of", Expectation::Form::one_of}}};

const Json& member(const Json& object, const char* name) {
  const Json* found = object.find(name);
  if (found == nullptr) throw Error(ErrorKind::bad_input, fmt::format("{} is missing", name));
  return *found;
}

// Throws where the value cannot be what its form says, so that judging cannot fail later.
void check(const Expectation& expect) {
  switch (expect.form) {
    case Expectation::Form::calls:
      for (const Json& call : expect.value.as_array()) {
        member(call, "name").as_string();
        member(call, "arguments").as_object();
      }
      break;
    case Expectation::Form::equals:
    case Expectation::Form::contains:
      expect.value.as_string();
      break;
    case Expectation::Form::json:
      break;
    case Expectation::Form::one_of:
      for (const Json& answer : expect.value.as_array()) answer.as_string();
      break;
  }
}

Expectation read_expectation(const Json& json) {
  Expectation expect;
  int found = 0;
  for (const auto& [name, form] : kForms) {
    const Json* value = json.find(name);
    if (value == nullptr) continue;
    expect = {form, *value};
    ++found;
  }
  if (found != 1) {
    throw Error(ErrorKind::bad_input,
                fmt::format("expect holds {} of calls, equals, contains, json and one_of; exactly one is "
                            "needed",
                            found));
  }
  check(expect);
  return expect;
}

// A line that continues the one before it: that one's messages, tools and thinking come first.
void continue_from(const Json& before, Json& json) {
  if (before.is_null()) throw Error(ErrorKind::bad_input, "continues: there is no line before it");
  Json::Array messages = member(before, "messages").as_array();
  const Json::Array& own = member(json, "messages").as_array();
  messages.insert(messages.end(), own.begin(), own.end());
  json.set("messages", Json::array(std::move(messages)));
  for (const char* name : {"tools", "enable_thinking"}) {
    if (json.find(name) != nullptr) {
      throw Error(ErrorKind::bad_input, fmt::format("continues: {} stands in the line before it", name));
    }
    if (const Json* value = before.find(name)) json.set(name, *value);
  }
}

// `before` is the task of the line before it, whole, and becomes this one.
SuiteTask read_task(std::string_view line, Json& before) {
  Json json = Json::parse(line);
  if (const Json* continues = json.find("continues"); continues != nullptr && continues->as_boolean()) {
    continue_from(before, json);
  }
  SuiteTask task;
  task.kind = member(json, "kind").as_string();
  task.prompt = parse_chat_prompt(json);
  task.expect = read_expectation(member(json, "expect"));
  before = std::move(json);
  return task;
}

}  // namespace

std::vector<SuiteTask> read_suite(const std::filesystem::path& file) {
  const std::string text = read_text_file(file, kMostBytes);
  std::vector<SuiteTask> tasks;
  Json before;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    ++number;
    begin = end + 1;
    if (line.empty()) continue;
    try {
      tasks.push_back(read_task(line, before));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}, line {}: {}", file.string(), number, error.what()));
    }
  }
  if (tasks.empty()) {
    throw Error(ErrorKind::bad_input, fmt::format("{} holds no task; at least one is needed", file.string()));
  }
  return tasks;
}

}  // namespace lily
