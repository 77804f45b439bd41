// Server-sent events.
#include "serve/sse_writer.hpp"

#include <string>

namespace lily::serve {

bool SseWriter::data(std::string_view json) { return write("data: ", json); }

bool SseWriter::comment(std::string_view text) { return write(": ", text); }

bool SseWriter::write(std::string_view prefix, std::string_view text) {
  if (lost_) return false;
  std::string event;
  event.reserve(prefix.size() + text.size() + 2);
  event.append(prefix).append(text).append("\n\n");
  lost_ = !sink_.write(event);
  last_write_ = std::chrono::steady_clock::now();
  return !lost_;
}

}  // namespace lily::serve
