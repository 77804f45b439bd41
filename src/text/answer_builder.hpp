// Assembles an answer from what the parser recognises: what was added since the last look, and the whole.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lily/chat.hpp"
#include "text/stop_matcher.hpp"

namespace lily::text {

class AnswerBuilder {
 public:
  AnswerBuilder(const std::vector<std::string>& stop_strings, std::string call_id_prefix)
      : stop_(stop_strings), call_id_prefix_(std::move(call_id_prefix)) {}

  // Line breaks at either end of the reasoning belong to the markup around it and are left out.
  void reasoning(std::string_view text);
  // White space at the end is held until it is known whether a call follows, which it would only separate.
  void content(std::string_view text);

  void begin_call(std::string_view name);
  void arguments(std::string_view json);  // of the call begun last
  void drop_call();                       // leaves the call begun last out of the answer

  // Forgets held white space: what followed it was markup.
  void discard_space() { held_space_.clear(); }

  bool stopped() const noexcept { return stop_.matched(); }
  void finish(bool by_length);
  Delta take_delta() { return std::exchange(delta_, {}); }
  const Answer& answer() const noexcept { return answer_; }

 private:
  void put_content(std::string_view text);

  StopMatcher stop_;
  const std::string call_id_prefix_;
  std::size_t calls_begun_ = 0;
  std::string held_breaks_;  // of the reasoning
  std::string held_space_;   // of the content
  Delta delta_;
  Answer answer_;
};

}  // namespace lily::text
