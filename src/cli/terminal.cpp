// Terminal detection and the filter for text that comes from a model.
#include "cli/terminal.hpp"

#include <unistd.h>

namespace lily::cli {

bool output_is_terminal() { return isatty(STDOUT_FILENO) == 1; }
bool error_is_terminal() { return isatty(STDERR_FILENO) == 1; }
bool input_is_terminal() { return isatty(STDIN_FILENO) == 1; }

std::string without_controls(std::string_view text) {
  constexpr std::string_view kReplacement = "\xef\xbf\xbd";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // C1 controls, U+0080 to U+009F
      out += kReplacement;
      ++i;
    } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) {
      out += kReplacement;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

}  // namespace lily::cli
