// Splitting of the format's own text at its control literals.
#include "text/prompt_writer.hpp"

#include <array>

namespace lily::text {
namespace {

// The added tokens that the published template prints.
constexpr std::array<std::string_view, 12> kControlLiterals = {
    "<|im_start|>",     "<|im_end|>",     "<think>",         "</think>",
    "<tool_call>",      "</tool_call>",   "<tool_response>", "</tool_response>",
    "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",   "<|video_pad|>"};

// The control literal at the start of `text`, or nothing.
std::string_view control_literal_at(std::string_view text) {
  for (const std::string_view literal : kControlLiterals) {
    if (text.starts_with(literal)) return literal;
  }
  return {};
}

}  // namespace

void PromptWriter::format(std::string_view text) {
  std::size_t begin = 0;
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at)) {
    const std::string_view literal = control_literal_at(text.substr(at));
    if (literal.empty()) {
      ++at;
      continue;
    }
    plain(text.substr(begin, at - begin));
    segments_.push_back({.control = true, .text = std::string(literal)});
    at += literal.size();
    begin = at;
  }
  plain(text.substr(begin));
}

void PromptWriter::plain(std::string_view text) {
  if (text.empty()) return;
  if (segments_.empty() || segments_.back().control) {
    segments_.push_back({.control = false, .text = std::string(text)});
  } else {
    segments_.back().text += text;
  }
}

void PromptWriter::append(const std::vector<PromptSegment>& segments) {
  for (const PromptSegment& segment : segments) {
    if (segment.control) {
      segments_.push_back(segment);
    } else {
      plain(segment.text);
    }
  }
}

}  // namespace lily::text
