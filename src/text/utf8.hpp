// Reading UTF-8 that may be broken: one character at a time, and the longest valid beginning of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lily::text {

enum class Utf8Status : std::uint8_t {
  valid,
  broken,      // no continuation can repair it
  incomplete,  // the text ends inside a character that could still be completed
};

struct Utf8Char {
  Utf8Status status = Utf8Status::broken;
  std::uint8_t length = 1;  // bytes of the character, or of the longest broken prefix of one
  char32_t code_point = 0xFFFD;
};

// The character at the beginning of `text`, which is not empty. Overlong forms, surrogates and code points
// above U+10FFFF are broken; `length` then counts what Unicode recommends to replace by one U+FFFD.
Utf8Char read_utf8(std::string_view text) noexcept;

// Bytes of the longest beginning of `text` that is ASCII.
std::size_t ascii_prefix(std::string_view text) noexcept;
// Bytes of the longest beginning of `text` that is valid UTF-8.
std::size_t valid_utf8_prefix(std::string_view text) noexcept;

// The beginning of valid UTF-8 in at most `bytes`, cut between characters.
std::string_view utf8_beginning(std::string_view text, std::size_t bytes) noexcept;

// The character at `at` of valid UTF-8; advances `at` behind it.
inline char32_t next_code_point(const unsigned char*& at) noexcept {
  const char32_t lead = *at++;
  if (lead < 0x80) return lead;
  if (lead < 0xE0) return ((lead & 0x1F) << 6) | (*at++ & 0x3FU);
  if (lead < 0xF0) {
    const char32_t code_point = ((lead & 0x0F) << 12) | ((at[0] & 0x3FU) << 6) | (at[1] & 0x3FU);
    at += 2;
    return code_point;
  }
  const char32_t code_point =
      ((lead & 0x07) << 18) | ((at[0] & 0x3FU) << 12) | ((at[1] & 0x3FU) << 6) | (at[2] & 0x3FU);
  at += 3;
  return code_point;
}

}  // namespace lily::text
