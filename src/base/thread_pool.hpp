// A fixed set of threads for parallel loops; waits by spinning briefly, then sleeps.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace lily {

// The calling thread takes part, so a pool of N threads starts N - 1. Loops must be started by one thread at
// a time. Results never depend on the number of threads as long as a body's work depends on its index only.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // >= 1
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept;

  // Calls body(begin, end, thread) for disjoint ranges that cover [0, count), handed out in pieces of at most
  // `grain`; returns when all are done. `thread` is in [0, size()). The first exception is rethrown here.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run(count, grain, const_cast<void*>(static_cast<const void*>(&body)),
        [](void* context, std::int64_t begin, std::int64_t end, int thread) {
          (*static_cast<Plain*>(context))(begin, end, thread);
        });
  }

 private:
  // A plain function and its context: a decode step starts some 200 loops, and a std::function would allocate
  // for each.
  using Function = void (*)(void* context, std::int64_t begin, std::int64_t end, int thread);
  void run(std::int64_t count, std::int64_t grain, void* context, Function function);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Cores this process may use.
int available_cores();

}  // namespace lily
