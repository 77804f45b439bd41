// Makes pieces of a request harmless to repeat.
#include "serve/echo.hpp"

namespace lily::serve {

std::string shortened(std::string_view text, std::size_t limit) {
  constexpr std::string_view kEllipsis = "…";
  if (text.size() <= limit) return std::string(text);
  std::size_t end = limit - kEllipsis.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)).append(kEllipsis);
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string shown(text.substr(0, limit));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return shown;
}

}  // namespace lily::serve
