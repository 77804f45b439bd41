// Reading UTF-8 that may be broken.
#include "text/utf8.hpp"

#include <cstring>

namespace lily::text {

Utf8Char read_utf8(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Utf8Status::valid, 1, lead};

  // The second byte's range rules out overlong forms, surrogates and values above U+10FFFF.
  std::uint8_t length = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  char32_t code_point = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code_point = lead & 0x1FU;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code_point = lead & 0x0FU;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code_point = lead & 0x07U;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Utf8Status::broken, 1};
  }
  for (std::uint8_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Status::incomplete, i};
    const unsigned next = byte(i);
    if (next < low || next > high) return {Utf8Status::broken, i};
    code_point = (code_point << 6) | (next & 0x3FU);
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Status::valid, length, code_point};
}

std::size_t ascii_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  for (std::uint64_t word = 0; text.size() - at >= sizeof word; at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

std::size_t valid_utf8_prefix(std::string_view text) noexcept {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      at += ascii_prefix(text.substr(at));
      continue;
    }
    const Utf8Char next = read_utf8(text.substr(at));
    if (next.status != Utf8Status::valid) break;
    at += next.length;
  }
  return at;
}

std::string_view utf8_beginning(std::string_view text, std::size_t bytes) noexcept {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace lily::text
