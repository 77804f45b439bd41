// Ctrl-C as a stop request: while an answer is generated it ends the answer, not the program.
#pragma once

#include <stop_token>
#include <thread>

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

}  // namespace lily::cli
