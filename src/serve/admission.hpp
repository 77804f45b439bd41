// How many generations may run and wait at once; the gate in front of the engine's queue.
#pragma once

#include <atomic>
#include <utility>

namespace lily::serve {

// The server counts as well as the engine, because a full queue must become a 503 before a stream's status
// line.
class Admission {
 public:
  explicit Admission(int limit) : limit_(limit) {}

  // A place, given back when destroyed.
  class Ticket {
   public:
    explicit Ticket(Admission* admission = nullptr) : admission_(admission) {}
    Ticket(Ticket&& other) noexcept : admission_(std::exchange(other.admission_, nullptr)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(admission_, other.admission_);
      return *this;
    }
    ~Ticket() {
      if (admission_ != nullptr) admission_->active_ -= 1;
    }
    explicit operator bool() const noexcept { return admission_ != nullptr; }

   private:
    Admission* admission_;
  };

  // An empty ticket when all places are taken.
  Ticket enter() {
    if (active_.fetch_add(1) < limit_) return Ticket(this);
    active_ -= 1;
    return Ticket();
  }
  int active() const noexcept { return active_; }
  int limit() const noexcept { return limit_; }

 private:
  std::atomic<int> active_{0};
  const int limit_;
};

}  // namespace lily::serve
