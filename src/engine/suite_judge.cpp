// Judges an answer by what its task expects.
#include <algorithm>

#include "lily/error.hpp"
#include "lily/suite.hpp"

namespace lily {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool is_control(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return (byte < 0x20 && character != '\n') || byte == 0x7F;
}

bool is_broken(const Answer& answer) {
  if (answer.finish_reason == FinishReason::length) return true;
  if (answer.content.empty() && answer.tool_calls.empty()) return true;
  return answer.content.find(kReplacement) != std::string::npos ||
         std::any_of(answer.content.begin(), answer.content.end(), is_control);
}

bool is_call(const Answer::Call& call, const Json& wanted) {
  return call.name == wanted.find("name")->as_string() &&
         Json::parse(call.arguments) == *wanted.find("arguments");
}

bool is_json(const std::string& text, const Json& wanted) {
  try {
    return Json::parse(text) == wanted;
  } catch (const Error&) {
    return false;  // the model wrote something else
  }
}

bool is_right(const Expectation& expect, const Answer& answer) {
  const Json& value = expect.value;
  if (expect.form == Expectation::Form::calls) {
    return std::equal(answer.tool_calls.begin(), answer.tool_calls.end(), value.as_array().begin(),
                      value.as_array().end(), is_call);
  }
  if (!answer.tool_calls.empty()) return false;
  switch (expect.form) {
    case Expectation::Form::equals:
      return answer.content == value.as_string();
    case Expectation::Form::contains:
      return answer.content.find(value.as_string()) != std::string::npos;
    case Expectation::Form::json:
      return is_json(answer.content, value);
    case Expectation::Form::one_of:
      return std::any_of(value.as_array().begin(), value.as_array().end(),
                         [&](const Json& right) { return answer.content == right.as_string(); });
    case Expectation::Form::calls:
      break;
  }
  return false;
}

}  // namespace

Judgement judge(const Expectation& expect, const Answer& answer) {
  const bool broken = is_broken(answer);
  return {.passed = !broken && is_right(expect, answer), .broken = broken};
}

}  // namespace lily
