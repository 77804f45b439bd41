// A bound on the bytes of all request bodies held at once, so that many large requests cannot exhaust memory.
#pragma once

#include <atomic>
#include <cstddef>

namespace lily::serve {

class BodyBudget {
 public:
  explicit BodyBudget(std::size_t limit) : limit_(limit) {}

  // The share of one request, given back when destroyed.
  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_(budget) {}
    ~Share() { budget_.used_ -= taken_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    bool take(std::size_t bytes) {
      taken_ += bytes;
      return (budget_.used_ += bytes) <= budget_.limit_;
    }

   private:
    BodyBudget& budget_;
    std::size_t taken_ = 0;
  };

 private:
  std::atomic<std::size_t> used_{0};
  const std::size_t limit_;
};

}  // namespace lily::serve
