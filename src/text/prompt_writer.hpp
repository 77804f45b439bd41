// Collects a prompt as segments: control tokens of the format, and plain text that can never become one.
#pragma once

#include <string_view>
#include <vector>

#include "lily/text.hpp"

namespace lily::text {

class PromptWriter {
 public:
  // Text of the template itself: every control literal in it becomes a control segment, as the official
  // tokenizer matches them wherever they stand.
  void format(std::string_view text);
  // Text from outside, never control. Joined with plain text before it: the pre-tokenizer must see what the
  // official one sees between two control tokens.
  void plain(std::string_view text);
  void append(const std::vector<PromptSegment>& segments);

  const std::vector<PromptSegment>& segments() const { return segments_; }
  std::vector<PromptSegment> take() { return std::move(segments_); }

 private:
  std::vector<PromptSegment> segments_;
};

}  // namespace lily::text
