// Requests take turns in the order of arrival; only so many may wait.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <stop_token>
#include <utility>

namespace lily::engine {

class RequestQueue {
 public:
  explicit RequestQueue(int max_waiting) : max_waiting_(max_waiting) {}

  // Held while a request runs; the next one starts when it is destroyed. Empty when the wait was stopped.
  class Turn {
   public:
    Turn() = default;
    explicit Turn(RequestQueue* queue) : queue_(queue) {}
    Turn(Turn&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (queue_ != nullptr) queue_->leave();
    }
    explicit operator bool() const noexcept { return queue_ != nullptr; }

   private:
    RequestQueue* queue_ = nullptr;
  };

  // Waits for this request's turn. Throws Error(overloaded) at once when too many wait already.
  Turn enter(const std::stop_token& stop);

 private:
  void leave();

  const int max_waiting_;
  std::mutex mutex_;
  std::condition_variable_any turn_changed_;
  std::deque<std::uint64_t> waiting_;  // tickets, the next one first
  std::uint64_t next_ticket_ = 0;
  bool running_ = false;
};

}  // namespace lily::engine
