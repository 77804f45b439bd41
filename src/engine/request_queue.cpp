// Requests take turns in the order of arrival.
#include "engine/request_queue.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lily/error.hpp"

namespace lily::engine {

RequestQueue::Turn RequestQueue::enter(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (running_ || !waiting_.empty()) {
    if (static_cast<int>(waiting_.size()) >= max_waiting_) {
      throw Error(ErrorKind::overloaded,
                  fmt::format("{} requests are waiting and the queue holds {}; try again later",
                              waiting_.size(), max_waiting_));
    }
    const std::uint64_t ticket = next_ticket_++;
    waiting_.push_back(ticket);
    const bool arrived =
        turn_changed_.wait(lock, stop, [&] { return !running_ && waiting_.front() == ticket; });
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), ticket));
    if (!arrived) {
      turn_changed_.notify_all();  // it may have been first while nothing ran
      return {};
    }
  }
  running_ = true;
  return Turn(this);
}

void RequestQueue::leave() {
  {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  turn_changed_.notify_all();
}

}  // namespace lily::engine
