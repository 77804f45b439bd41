// A flag that is set once and can be waited for together with sockets.
#pragma once

#include <atomic>

namespace lily::serve {

class StopEvent {
 public:
  StopEvent();  // throws Error(device) when the process has no descriptors left
  ~StopEvent();
  StopEvent(const StopEvent&) = delete;
  StopEvent& operator=(const StopEvent&) = delete;

  void set() noexcept;
  bool is_set() const noexcept { return set_.load(std::memory_order_acquire); }
  void wait() const noexcept;
  // Readable from set() on; for poll().
  int descriptor() const noexcept { return pipe_[0]; }

 private:
  std::atomic<bool> set_{false};
  int pipe_[2] = {-1, -1};
};

}  // namespace lily::serve
