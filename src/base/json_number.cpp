// Comparison of decimal numbers by their digits, and Python's spelling of floats.
#include "base/json_number.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

namespace lily {
namespace {

// A decimal number as sign, digits without zeros at either end, and the power of ten of the last digit, so
// that numbers compare exactly whatever their size and spelling.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;
  bool operator==(const Decimal&) const = default;
};

Decimal decimal_of(std::string_view text) {
  Decimal decimal;
  std::size_t i = 0;
  if (i < text.size() && text[i] == '-') decimal.negative = true, ++i;
  bool fraction = false;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    decimal.digits += text[i];
    if (fraction) --decimal.exponent;
  }
  if (i < text.size()) {
    ++i;
    if (i < text.size() && text[i] == '+') ++i;
    std::int64_t power = 0;
    const auto [end, status] = std::from_chars(text.data() + i, text.data() + text.size(), power);
    // A power beyond int64 is only accepted by the parser for numbers that are zero as a double.
    if (status == std::errc::result_out_of_range) power = std::numeric_limits<std::int64_t>::min() / 2;
    decimal.exponent += power;
  }
  while (!decimal.digits.empty() && decimal.digits.back() == '0') {
    decimal.digits.pop_back();
    ++decimal.exponent;
  }
  decimal.digits.erase(0, std::min(decimal.digits.find_first_not_of('0'), decimal.digits.size()));
  if (decimal.digits.empty()) return {};
  return decimal;
}

}  // namespace

bool equal_numbers(std::string_view a, std::string_view b) {
  return a == b || decimal_of(a) == decimal_of(b);
}

std::string python_repr(double value) {
  char buffer[32];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(scientific.ptr - buffer));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::size_t sign = text[mark + 1] == '+' ? 2 : 1;
  std::from_chars(text.data() + mark + sign, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

}  // namespace lily
