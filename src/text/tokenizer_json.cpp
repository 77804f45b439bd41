// The pulling JSON reader.
#include "text/tokenizer_json.hpp"

#include <fmt/format.h>

#include "lily/error.hpp"

namespace lily::text {
namespace {

constexpr std::uint64_t kLargestInteger = std::uint64_t{1} << 53;

void append_utf8(std::string& out, char32_t code_point) {
  const auto tail = [&](unsigned shift) {
    return static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU));
  };
  if (code_point < 0x80) {
    out.push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    out.push_back(static_cast<char>(0xC0U | (code_point >> 6)));
    out.push_back(tail(0));
  } else if (code_point < 0x10000) {
    out.push_back(static_cast<char>(0xE0U | (code_point >> 12)));
    out.push_back(tail(6));
    out.push_back(tail(0));
  } else {
    out.push_back(static_cast<char>(0xF0U | (code_point >> 18)));
    out.push_back(tail(12));
    out.push_back(tail(6));
    out.push_back(tail(0));
  }
}

}  // namespace

void JsonCursor::fail(std::string_view what) const {
  throw Error(ErrorKind::bad_input, fmt::format("{}: {} at byte {}", name_, what, offset()));
}

void JsonCursor::skip_space() noexcept {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') break;
    ++at_;
  }
}

bool JsonCursor::next_is(char c) {
  skip_space();
  return at_ < text_.size() && text_[at_] == c;
}

bool JsonCursor::accept(char c) {
  if (!next_is(c)) return false;
  ++at_;
  return true;
}

void JsonCursor::expect(char c) {
  if (!accept(c)) fail(fmt::format("no JSON: '{}' expected", c));
}

void JsonCursor::end() {
  skip_space();
  if (at_ != text_.size()) fail("no JSON: text behind the value");
}

std::string_view JsonCursor::string(std::string& storage) {
  expect('"');
  const std::size_t begin = at_;
  bool escaped = false;
  std::size_t copied = begin;
  while (true) {
    if (at_ == text_.size()) fail("no JSON: unfinished string");
    const char c = text_[at_];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) fail("no JSON: control character in a string");
    if (c == '\\') {
      if (!escaped) storage.clear();
      escaped = true;
      storage.append(text_.substr(copied, at_ - copied));
      append_escape(storage);
      copied = at_;
    } else {
      ++at_;
    }
  }
  const std::string_view rest = text_.substr(copied, at_ - copied);
  ++at_;
  if (!escaped) return rest;
  storage.append(rest);
  return storage;
}

void JsonCursor::append_escape(std::string& out) {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  ++at_;
  const char c = at_ < text_.size() ? text_[at_] : '\0';
  if (const std::size_t found = kEscapes.find(c); found != std::string_view::npos) {
    ++at_;
    out.push_back(kMeanings[found]);
    return;
  }
  if (c != 'u') fail("no JSON: unknown escape");
  char32_t code_point = hex_escape();
  if (code_point >= 0xD800 && code_point <= 0xDFFF) {
    const bool high = code_point <= 0xDBFF && text_.substr(at_, 2) == "\\u";
    if (high) ++at_;
    const char32_t low = high ? hex_escape() : 0;
    if (low < 0xDC00 || low > 0xDFFF) fail("no JSON: lone surrogate");
    code_point = 0x10000 + ((code_point - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(out, code_point);
}

// `at_` is at the u; leaves it behind the four digits.
unsigned JsonCursor::hex_escape() {
  unsigned value = 0;
  ++at_;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    const auto lower = static_cast<unsigned char>(c | 0x20);
    if (c >= '0' && c <= '9') {
      value = value * 16 + static_cast<unsigned>(c - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<unsigned>(lower - 'a') + 10;
    } else {
      fail("no JSON: four hexadecimal digits expected");
    }
  }
  return value;
}

std::uint64_t JsonCursor::integer() {
  skip_space();
  const std::size_t begin = at_;
  std::uint64_t value = 0;
  while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
    value = value * 10 + static_cast<std::uint64_t>(text_[at_] - '0');
    if (value >= kLargestInteger) fail("integer beyond 2^53");
    ++at_;
  }
  if (at_ == begin) fail("integer of at least 0 expected");
  if (text_[begin] == '0' && at_ - begin > 1) fail("no JSON: number with a leading zero");
  if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E'))
    fail("integer expected");
  return value;
}

void JsonCursor::skip_string() {
  while (true) {
    at_ = text_.find_first_of("\"\\", at_ + 1);
    if (at_ == std::string_view::npos) break;
    if (text_[at_] == '"') {
      ++at_;
      return;
    }
    if (++at_ == text_.size()) break;
  }
  at_ = text_.size();
  fail("no JSON: unfinished string");
}

std::string_view JsonCursor::raw_value() {
  skip_space();
  const std::size_t begin = at_;
  std::size_t depth = 0;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '"') {
      skip_string();
      continue;
    }
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    ++at_;
  }
  if (at_ == begin || depth != 0) fail("no JSON: value expected");
  return text_.substr(begin, at_ - begin);
}

}  // namespace lily::text
