// Python's str.strip, which the chat template's `trim` filter is.
#pragma once

#include <string_view>

namespace lily::text {

// The text without Unicode white space (as Python's str.isspace has it) at its start.
std::string_view strip_front(std::string_view text);
// ... at its end.
std::string_view strip_back(std::string_view text);
std::string_view strip(std::string_view text);

}  // namespace lily::text
