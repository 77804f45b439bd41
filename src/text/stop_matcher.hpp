// Finds the first stop string in text that comes in pieces; holds back what may be the beginning of one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace lily::text {

class StopMatcher {
 public:
  // Empty strings are ignored.
  explicit StopMatcher(const std::vector<std::string>& stop_strings);

  // Returns the text that is certain: everything but the longest suffix that could still grow into a stop
  // string. The match that completes first wins, the longest of those that complete together; the text from
  // its first byte on is dropped and matched() is true.
  std::string push(std::string_view text);
  // Gives up what is held back: no more text follows it.
  std::string flush();
  bool matched() const noexcept { return matched_; }

 private:
  // One stop string as a Knuth-Morris-Pratt automaton.
  struct Pattern {
    std::string text;
    std::vector<std::size_t> fallback;  // longest proper border of each prefix
    std::size_t state = 0;              // length of the prefix that the text so far ends with
    void advance(char c);
  };

  std::vector<Pattern> patterns_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace lily::text
