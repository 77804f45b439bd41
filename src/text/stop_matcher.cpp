// Stop strings by one automaton each: time is linear in the text whatever the strings are.
#include "text/stop_matcher.hpp"

#include <algorithm>
#include <utility>

namespace lily::text {

StopMatcher::StopMatcher(const std::vector<std::string>& stop_strings) {
  for (const std::string& text : stop_strings) {
    if (text.empty()) continue;
    Pattern pattern{.text = text, .fallback = std::vector<std::size_t>(text.size() + 1, 0)};
    for (std::size_t i = 1; i < text.size(); ++i) {
      pattern.advance(text[i]);
      pattern.fallback[i + 1] = pattern.state;
    }
    pattern.state = 0;
    patterns_.push_back(std::move(pattern));
  }
}

void StopMatcher::Pattern::advance(char c) {
  while (state > 0 && text[state] != c) state = fallback[state];
  if (text[state] == c) ++state;
}

std::string StopMatcher::push(std::string_view text) {
  if (matched_) return {};
  if (patterns_.empty()) return std::string(text);
  const std::size_t before = held_.size();
  held_ += text;
  std::size_t candidate = 0;  // bytes at the end that begin some stop string
  for (std::size_t i = before; i < held_.size(); ++i) {
    candidate = 0;
    std::size_t match = 0;
    for (Pattern& pattern : patterns_) {
      pattern.advance(held_[i]);
      candidate = std::max(candidate, pattern.state);
      if (pattern.state == pattern.text.size()) match = std::max(match, pattern.state);
    }
    if (match > 0) {
      matched_ = true;
      held_.resize(i + 1 - match);
      return std::exchange(held_, {});
    }
  }
  if (before == held_.size()) return {};
  std::string certain = held_.substr(0, held_.size() - candidate);
  held_.erase(0, certain.size());
  return certain;
}

std::string StopMatcher::flush() {
  for (Pattern& pattern : patterns_) pattern.state = 0;
  return std::exchange(held_, {});
}

}  // namespace lily::text
