// Turns what the model writes, piece by piece, into reasoning, content and tool calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lily/chat.hpp"

namespace lily::text {

// Total: any text in any cut gives a result, and the fold of the deltas equals answer().
class OutputParser {
 public:
  struct Options {
    bool in_think = false;                  // the prompt ended inside the think block
    std::vector<Json> tools;                // schemas convert argument values; empty: markup stays content
    std::vector<std::string> stop_strings;  // act on content only
    std::string call_id_prefix = "call_";   // ids are prefix + number; make it unique per request
  };
  explicit OutputParser(Options options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;

  // Feeds valid UTF-8 text; returns what became certain.
  Delta push(std::string_view text);
  // A stop string was completed: generation should end.
  bool stopped() const noexcept;
  bool in_reasoning() const noexcept;
  // Ends the answer; returns what was held back. `by_length`: generation was cut by a token limit.
  Delta finish(bool by_length);
  // The whole answer after finish().
  const Answer& answer() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lily::text
