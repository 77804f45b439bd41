// Server-sent events: one whole event or comment per write.
#pragma once

#include <chrono>
#include <string_view>

#include "serve/http_types.hpp"

namespace lily::serve {

class SseWriter {
 public:
  explicit SseWriter(ByteSink& sink) : sink_(sink) {}

  // `json` holds no line breaks. False from any of these: the client is lost, nothing more is sent.
  bool data(std::string_view json);
  bool done() { return data("[DONE]"); }
  // A line that clients skip, so that neither they nor proxies on the way take a long silence for a fault.
  bool comment(std::string_view text);

  std::chrono::steady_clock::duration silence() const {
    return std::chrono::steady_clock::now() - last_write_;
  }
  bool lost() const noexcept { return lost_; }

 private:
  bool write(std::string_view prefix, std::string_view text);

  ByteSink& sink_;
  std::chrono::steady_clock::time_point last_write_ = std::chrono::steady_clock::now();
  bool lost_ = false;
};

}  // namespace lily::serve
