// The thread pool: one loop at a time, ranges handed out by an atomic counter.
#include "base/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

namespace lily {

namespace {

// Loops of one decode step follow each other within some microseconds; a sleeping thread takes about 50 us to
// wake. So spin for that long, then sleep: an idle engine uses no processor time.
constexpr auto kSpin = std::chrono::microseconds(60);

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` differs from `old`.
template <class T>
void wait_for_change(const std::atomic<T>& value, T old) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

// A loop is announced, joined and closed in one word: the number of loops so far, whether the loop is open,
// and how many workers are in it. A worker that the system has put aside is not waited for unless it has
// joined: on a machine with other work the caller does the ranges itself instead of waiting out a time slice.
constexpr std::uint32_t kWorkers = 0xffff;  // mask of the workers in the loop
constexpr std::uint32_t kOpen = 0x10000;
constexpr std::uint32_t kOneLoop = 0x20000;
constexpr std::uint32_t loop_number(std::uint32_t state) { return state / kOneLoop; }

struct ThreadPool::Impl {
  std::vector<std::jthread> workers;
  std::atomic<bool> stopping{false};

  // The loop in progress; written while no worker is in it, read after joining.
  std::int64_t count = 0;
  std::int64_t grain = 1;
  void* context = nullptr;
  Function function = nullptr;

  alignas(64) std::atomic<std::uint32_t> state{0};
  alignas(64) std::atomic<std::int64_t> next{0};
  std::mutex failure_mutex;
  std::exception_ptr failure;

  void take_ranges(int thread) {
    try {
      for (;;) {
        const std::int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= count) return;
        function(context, begin, std::min(begin + grain, count), thread);
      }
    } catch (...) {
      next.store(count, std::memory_order_relaxed);
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void work(int thread) {
    std::uint32_t last_loop = 0;
    while (!stopping.load(std::memory_order_acquire)) {
      std::uint32_t now = state.load(std::memory_order_acquire);
      if ((now & kOpen) == 0 || loop_number(now) == last_loop) {
        wait_for_change(state, now);
        continue;
      }
      if (!state.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) continue;
      last_loop = loop_number(now);
      take_ranges(thread);
      const std::uint32_t left = state.fetch_sub(1, std::memory_order_acq_rel) - 1;
      if ((left & (kOpen | kWorkers)) == 0) state.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  for (int i = 1; i < threads; ++i) impl_->workers.emplace_back([this, i] { impl_->work(i); });
}

ThreadPool::~ThreadPool() {
  impl_->stopping.store(true, std::memory_order_release);
  impl_->state.fetch_add(kOneLoop, std::memory_order_release);
  impl_->state.notify_all();
  impl_->workers.clear();  // joins
}

int ThreadPool::size() const noexcept { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t count, std::int64_t grain, void* context, Function function) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (impl_->workers.empty() || count <= grain) {
    function(context, 0, count, 0);
    return;
  }
  Impl& pool = *impl_;
  pool.count = count;
  pool.grain = grain;
  pool.context = context;
  pool.function = function;
  pool.failure = nullptr;
  pool.next.store(0, std::memory_order_relaxed);
  pool.state.fetch_add(kOneLoop | kOpen, std::memory_order_release);
  pool.state.notify_all();

  pool.take_ranges(0);
  std::uint32_t now = pool.state.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while ((now & kWorkers) != 0) {
    wait_for_change(pool.state, now);
    now = pool.state.load(std::memory_order_acquire);
  }
  if (pool.failure) std::rethrow_exception(pool.failure);
}

int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace lily
