// Prints an answer as it streams: content as it is, reasoning dimmed and only where a person reads it.
#pragma once

#include <string_view>

#include "lily/chat.hpp"
#include "lily/generation.hpp"

namespace lily::cli {

// To standard output. In a terminal: reasoning dimmed, then the content, both without control characters.
// Elsewhere: the content alone, byte for byte.
class AnswerPrinter {
 public:
  AnswerPrinter();
  void print(const Delta& delta);
  // Ends the last line.
  void finish();

 private:
  void write(std::string_view text, bool reasoning);

  bool terminal_;
  bool in_reasoning_ = false;
  bool at_line_start_ = true;
  bool content_begun_ = false;
};

// "prompt 26 tokens (0 cached) in 0.01 s, 2600 tok/s; answer 12 tokens in 0.05 s, 240 tok/s" for people.
std::string describe_timing(const GenerationResult& result);

}  // namespace lily::cli
