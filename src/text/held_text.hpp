// The text a parser has been given and not taken yet, as its beginning may still become one thing or another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "text/call_markup.hpp"

namespace lily::text {

class HeldText {
 public:
  void push(std::string_view text) { text_ += text; }
  void end() { final_ = true; }  // no more text follows
  bool final() const { return final_; }

  // Places are offsets into all(); the held text begins at at().
  std::string_view all() const { return text_; }
  std::size_t at() const { return at_; }
  std::string_view rest() const { return all().substr(at_); }
  bool empty() const { return at_ == text_.size(); }
  MarkupView markup() const { return {text_, final_}; }
  // The first place from `from` on where one of `characters` stands, or the end.
  std::size_t find(std::string_view characters, std::size_t from) const {
    return std::min(text_.find_first_of(characters, from), text_.size());
  }

  // Takes the text up to `end`; what is returned lives until the next push or compact.
  std::string_view take(std::size_t end) {
    const std::string_view taken = all().substr(at_, end - at_);
    at_ = end;
    if (recording_) record_ += taken;
    return taken;
  }
  std::string_view take_all() { return take(text_.size()); }
  std::string_view take_space() {
    return take(std::min(text_.find_first_not_of(kMarkupSpace, at_), text_.size()));
  }
  void compact() {
    text_.erase(0, at_);
    at_ = 0;
  }

  // Keeps a copy of what is taken from now on, after `head`, until it is asked for.
  void record(std::string head) {
    recording_ = true;
    record_ = std::move(head);
  }
  std::string stop_recording() {
    recording_ = false;
    return std::exchange(record_, {});
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
  bool final_ = false;
  bool recording_ = false;
  std::string record_;
};

}  // namespace lily::text
