// The thread pool: one loop at a time; each thread works through a share of its own, then takes from others'.
#include "base/thread_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "lily/error.hpp"

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

// What is left of a thread's share of a loop, begin and end in one word: its owner takes from the front, the
// others from the back. Reading weights in long runs is what this is for: pieces of 92 KiB handed out in turn
// were read at 42 GB/s, one half of a matrix to each of two threads at 60.
class alignas(64) Share {
 public:
  void set(std::uint32_t begin, std::uint32_t end) {
    word_.store(pack(begin, end), std::memory_order_relaxed);
  }
  void clear() { set(0, 0); }

  // The next `grain` indices, or fewer; an empty range when nothing is left.
  std::pair<std::uint32_t, std::uint32_t> take_front(std::uint32_t grain) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const auto [begin, end] = unpack(word);
      const std::uint32_t next = end - begin > grain ? begin + grain : end;
      if (begin == end || exchange(word, next, end)) return {begin, next};
    }
  }
  // The last half, in whole grains.
  std::pair<std::uint32_t, std::uint32_t> take_back(std::uint32_t grain) {
    std::uint64_t word = word_.load(std::memory_order_relaxed);
    for (;;) {
      const auto [begin, end] = unpack(word);
      const std::uint32_t pieces = (end - begin + grain - 1) / grain;
      const std::uint32_t middle = begin + pieces / 2 * grain;
      if (begin == end || exchange(word, begin, middle)) return {middle, end};
    }
  }

 private:
  static constexpr std::uint64_t pack(std::uint32_t begin, std::uint32_t end) {
    return static_cast<std::uint64_t>(begin) << 32 | end;
  }
  static constexpr std::pair<std::uint32_t, std::uint32_t> unpack(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> 32), static_cast<std::uint32_t>(word)};
  }
  bool exchange(std::uint64_t& word, std::uint32_t begin, std::uint32_t end) {
    return word_.compare_exchange_weak(word, pack(begin, end), std::memory_order_relaxed);
  }

  std::atomic<std::uint64_t> word_{0};
};

struct ThreadPool::Impl {
  explicit Impl(int threads) : shares(static_cast<std::size_t>(threads)) {}
  // Here and not in the pool's destructor, which does not run when the system refuses a thread: those before
  // it would be waited for without end.
  ~Impl() {
    stopping.store(true, std::memory_order_release);
    state.fetch_add(kOneLoop, std::memory_order_release);
    state.notify_all();
    workers.clear();  // joins
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::vector<Share> shares;
  std::vector<std::jthread> workers;
  std::atomic<bool> stopping{false};

  // The loop in progress; written while no worker is in it, read after joining.
  std::uint32_t grain = 1;
  void* context = nullptr;
  Function function = nullptr;
  bool ordered = false;

  alignas(64) std::atomic<std::uint32_t> state{0};
  std::mutex failure_mutex;
  std::exception_ptr failure;

  // An atomic claim in a loop's only share is the order of its indices; else every thread has one.
  void divide(std::uint32_t count, bool in_order) {
    const std::size_t parts = in_order ? 1 : shares.size();
    const std::uint32_t pieces = (count + grain - 1) / grain;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (i >= parts) {
        shares[i].clear();
        continue;
      }
      const auto bound = [&](std::size_t part) {
        const std::uint64_t piece = std::uint64_t{pieces} * part / parts;
        return static_cast<std::uint32_t>(std::min<std::uint64_t>(piece * grain, count));
      };
      shares[i].set(bound(i), bound(i + 1));
    }
    ordered = in_order;
  }

  void run_range(std::uint32_t begin, std::uint32_t end, int thread) {
    function(context, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end), thread);
  }

  void take_ranges(int thread) {
    try {
      const std::size_t own = ordered ? 0 : static_cast<std::size_t>(thread);
      drain(shares[own], thread);
      if (ordered) return;
      for (std::size_t step = 1; step < shares.size(); ++step) {
        Share& other = shares[(own + step) % shares.size()];
        for (;;) {
          const auto [begin, end] = other.take_back(grain);
          if (begin == end) break;
          shares[own].set(begin, end);  // so that a third thread may take from it
          drain(shares[own], thread);
        }
      }
    } catch (...) {
      for (Share& share : shares) share.clear();
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  void drain(Share& share, int thread) {
    for (;;) {
      const auto [begin, end] = share.take_front(grain);
      if (begin == end) return;
      run_range(begin, end, thread);
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

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>(threads)) {
  for (int i = 1; i < threads; ++i) {
    try {
      impl_->workers.emplace_back([impl = impl_.get(), i] { impl->work(i); });
    } catch (const std::system_error& error) {
      throw Error(ErrorKind::device,
                  fmt::format("cannot start thread {} of {}: {}", i + 1, threads, error.code().message()));
    }
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::size() const noexcept { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t count, std::int64_t grain, bool in_order, void* context,
                     Function function) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  if (impl_->workers.empty() || count <= grain) {
    function(context, 0, count, 0);
    return;
  }
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    throw Error(ErrorKind::internal,
                fmt::format("a parallel loop of {} steps; the limit is 2^32 - 1", count));
  }
  Impl& pool = *impl_;
  pool.grain = static_cast<std::uint32_t>(grain);
  pool.context = context;
  pool.function = function;
  pool.failure = nullptr;
  pool.divide(static_cast<std::uint32_t>(count), in_order);
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
