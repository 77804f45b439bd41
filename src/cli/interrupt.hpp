// Ctrl-C as a stop request: it ends an answer, or work that must clean up behind itself, not the program at
// once.
#pragma once

#include <stop_token>
#include <thread>

#include "lily/progress.hpp"

namespace lily::cli {

// While one exists, SIGINT sets its stop token instead of ending the program. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  bool interrupted() const;

 private:
  std::stop_source source_;
  std::jthread watcher_;
};

// `shown`, which may be empty, until `stop` is requested; the next report then throws Error(cancelled), so
// that the work that reports takes back what it has written.
Progress until_stopped(Progress shown, std::stop_token stop);

}  // namespace lily::cli
