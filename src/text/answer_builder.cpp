// The rules for white space, stop strings and finish reasons at the seams of an answer.
#include "text/answer_builder.hpp"

namespace lily {

std::string_view to_string(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::tool_calls:
      return "tool_calls";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "";
}

}  // namespace lily

namespace lily::text {

void AnswerBuilder::reasoning(std::string_view text) {
  const std::size_t end = text.find_last_not_of('\n') + 1;
  if (end > 0) {
    std::string_view certain = text.substr(0, end);
    if (answer_.reasoning.empty()) {
      held_breaks_.clear();
      certain.remove_prefix(certain.find_first_not_of('\n'));
    }
    delta_.reasoning.append(held_breaks_).append(certain);
    answer_.reasoning.append(held_breaks_).append(certain);
    held_breaks_.clear();
  }
  held_breaks_ += text.substr(end);
}

void AnswerBuilder::content(std::string_view text) { put_content(stop_.push(text)); }

void AnswerBuilder::put_content(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t end = text.find_last_not_of(kSpace) + 1;
  if (end > 0) {
    std::string_view certain = text.substr(0, end);
    if (answer_.content.empty() && calls_begun_ > 0) {
      held_space_.clear();
      certain.remove_prefix(certain.find_first_not_of(kSpace));
    }
    delta_.content.append(held_space_).append(certain);
    answer_.content.append(held_space_).append(certain);
    held_space_.clear();
  }
  held_space_ += text.substr(end);
}

void AnswerBuilder::begin_call(std::string_view name) {
  put_content(stop_.flush());  // no stop string reaches across a call
  const std::string id = call_id_prefix_ + std::to_string(calls_begun_);
  delta_.tool_calls.push_back({.index = calls_begun_, .id = id, .name = std::string(name), .arguments = {}});
  answer_.tool_calls.push_back({.id = id, .name = std::string(name), .arguments = {}});
  ++calls_begun_;
}

void AnswerBuilder::arguments(std::string_view json) {
  if (json.empty()) return;
  answer_.tool_calls.back().arguments += json;
  const std::size_t index = calls_begun_ - 1;
  if (delta_.tool_calls.empty() || delta_.tool_calls.back().index != index) {
    delta_.tool_calls.push_back({.index = index, .id = {}, .name = {}, .arguments = {}});
  }
  delta_.tool_calls.back().arguments += json;
}

void AnswerBuilder::drop_call() { answer_.tool_calls.pop_back(); }

void AnswerBuilder::finish(bool by_length) {
  put_content(stop_.flush());
  if (calls_begun_ == 0) {
    delta_.content += held_space_;
    answer_.content += held_space_;
  }
  held_space_.clear();
  if (by_length && !stopped()) {
    answer_.finish_reason = FinishReason::length;
  } else {
    answer_.finish_reason = answer_.tool_calls.empty() ? FinishReason::stop : FinishReason::tool_calls;
  }
}

}  // namespace lily::text
