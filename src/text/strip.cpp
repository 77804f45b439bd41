// Python's str.strip over UTF-8. The set is Python's, not Unicode's White_Space: it has U+001C to U+001F too.
#include "text/strip.hpp"

#include <array>
#include <cstddef>

namespace lily::text {
namespace {

// The UTF-8 forms of the white space above one byte.
constexpr std::array<std::string_view, 19> kWideSpaces = {
    "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
    "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};

bool is_narrow_space(char c) { return (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= ' '); }

std::size_t space_at_front(std::string_view text) {
  if (text.empty()) return 0;
  if (is_narrow_space(text.front())) return 1;
  for (const std::string_view space : kWideSpaces) {
    if (text.starts_with(space)) return space.size();
  }
  return 0;
}

std::size_t space_at_back(std::string_view text) {
  if (text.empty()) return 0;
  if (is_narrow_space(text.back())) return 1;
  for (const std::string_view space : kWideSpaces) {
    if (text.ends_with(space)) return space.size();
  }
  return 0;
}

}  // namespace

std::string_view strip_front(std::string_view text) {
  while (const std::size_t size = space_at_front(text)) text.remove_prefix(size);
  return text;
}

std::string_view strip_back(std::string_view text) {
  while (const std::size_t size = space_at_back(text)) text.remove_suffix(size);
  return text;
}

std::string_view strip(std::string_view text) { return strip_back(strip_front(text)); }

}  // namespace lily::text
