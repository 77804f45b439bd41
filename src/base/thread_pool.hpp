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
  // At least 1. Throws Error(device) when the system refuses one.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const noexcept;

  // Calls body(begin, end, thread) for disjoint ranges of at most `grain` that cover [0, count), and returns
  // when all are done. `thread` is in [0, size()). The first exception is rethrown here.
  //
  // Each thread goes forward through one long run of indices and then helps others with theirs.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
    run_body(count, grain, false, body);
  }
  // The same, but ranges are handed out in rising order: for files.
  template <class Body>
  void parallel_in_order(std::int64_t count, std::int64_t grain, Body&& body) {
    run_body(count, grain, true, body);
  }

 private:
  // A plain function and its context: a decode step starts some 200 loops, and a std::function would allocate
  // for each.
  using Function = void (*)(void* context, std::int64_t begin, std::int64_t end, int thread);
  void run(std::int64_t count, std::int64_t grain, bool in_order, void* context, Function function);
  template <class Body>
  void run_body(std::int64_t count, std::int64_t grain, bool in_order, Body& body) {
    run(count, grain, in_order, const_cast<void*>(static_cast<const void*>(&body)),
        [](void* context, std::int64_t begin, std::int64_t end, int thread) {
          (*static_cast<Body*>(context))(begin, end, thread);
        });
  }

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Cores this process may use.
int available_cores();

}  // namespace lily
