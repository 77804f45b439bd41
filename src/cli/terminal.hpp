// What the terminal is and what may be sent to it.
#pragma once

#include <string>
#include <string_view>

namespace lily::cli {

bool output_is_terminal();
bool error_is_terminal();
bool input_is_terminal();

inline constexpr std::string_view kDim = "\x1b[2m";
inline constexpr std::string_view kPlain = "\x1b[0m";

// `text` (valid UTF-8) with control characters other than line feed and tab shown as U+FFFD: what a model
// writes must not move the cursor, set titles or answer for the user.
std::string without_controls(std::string_view text);

}  // namespace lily::cli
