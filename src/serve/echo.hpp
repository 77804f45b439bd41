// Pieces of a request on their way into a message or a log line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lily::serve {

// No reply repeats more than this many bytes of a request.
inline constexpr std::size_t kMaxEcho = 200;

// `text` cut to `limit` bytes at a character's border, with an ellipsis when something is missing.
std::string shortened(std::string_view text, std::size_t limit);

// `text` in printable ASCII, everything else as '?', cut to `limit` bytes: cannot break a line or the
// encoding.
std::string printable(std::string_view text, std::size_t limit);

}  // namespace lily::serve
