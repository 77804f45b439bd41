// A strict reader that pulls JSON value by value: the half million strings of a tokenizer.json are never
// held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lily::text {

// Every failure is an Error(bad_input) of the form "NAME: WHAT at byte N".
class JsonCursor {
 public:
  // `name` is the file, for messages; `text` begins `offset` bytes into it.
  JsonCursor(std::string_view text, std::string_view name, std::size_t offset = 0)
      : text_(text), name_(name), offset_(offset) {}

  // Calls read_value(key) for each member; it must read exactly the value.
  template <typename ReadValue>
  void object(ReadValue read_value) {
    std::string storage;
    expect('{');
    if (accept('}')) return;
    do {
      const std::string_view key = string(storage);
      expect(':');
      read_value(key);
    } while (accept(','));
    expect('}');
  }

  // Calls read_element() for each element; it must read exactly the element.
  template <typename ReadElement>
  void array(ReadElement read_element) {
    expect('[');
    if (accept(']')) return;
    do read_element();
    while (accept(','));
    expect(']');
  }

  // A string's text: a view of the file when it has no escapes, else of `storage`. The UTF-8 is not checked.
  std::string_view string(std::string& storage);
  // A number without sign, fraction and exponent, below 2^53.
  std::uint64_t integer();
  // The text of the next value, whatever it is. Only brackets and strings are looked at; parse it to check
  // it.
  std::string_view raw_value();
  bool next_is(char c);
  // Nothing but white space may follow.
  void end();

  std::size_t offset() const noexcept { return offset_ + at_; }  // in the file
  [[noreturn]] void fail(std::string_view what) const;

 private:
  void skip_space() noexcept;
  void expect(char c);
  bool accept(char c);
  void skip_string();
  void append_escape(std::string& out);
  unsigned hex_escape();

  std::string_view text_;
  std::string_view name_;
  std::size_t offset_;
  std::size_t at_ = 0;
};

}  // namespace lily::text
