// Parallel loops: every index once, errors reach the caller, idle threads use no processor time.
#include "base/thread_pool.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/raises.hpp"

namespace lily {
namespace {

TEST(ThreadPool, VisitsEveryIndexOnceInPiecesOfTheGrain) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const std::int64_t count : {0, 1, 2, 63, 64, 65, 1000}) {
      for (const std::int64_t grain : {1, 7, 64, 5000}) {
        std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
        pool.parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, threads);
          EXPECT_LE(end - begin, std::max<std::int64_t>(grain, threads == 1 ? count : 0));
          for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
        for (const std::atomic<int>& visit : visits) ASSERT_EQ(visit, 1) << count << " by " << grain;
      }
    }
  }
}

TEST(ThreadPool, AThreadGoesForwardThroughOneLongRun) {
  ThreadPool pool(2);
  // Both bodies wait for each other once, so both threads surely take part.
  std::atomic<int> arrived{0};
  std::vector<std::int64_t> first(2, -1);
  std::vector<int> jumps(2);
  std::vector<std::int64_t> next(2);
  pool.parallel_for(1000, 10, [&](std::int64_t begin, std::int64_t end, int thread) {
    const auto own = static_cast<std::size_t>(thread);
    if (first[own] < 0) {
      first[own] = begin;
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    } else if (begin != next[own]) {
      ++jumps[own];
    }
    next[own] = end;
  });
  EXPECT_EQ(first, (std::vector<std::int64_t>{0, 500}));
  // What is left of the other's share is halved with each jump: 50 ranges, 6 halvings.
  EXPECT_LE(jumps[0], 12);
  EXPECT_LE(jumps[1], 12);
}

TEST(ThreadPool, InOrderMeansThatLaterRangesStartLater) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::vector<std::int64_t> started;
  pool.parallel_in_order(500, 1, [&](std::int64_t begin, std::int64_t, int) {
    const std::lock_guard lock(mutex);
    started.push_back(begin);
  });
  ASSERT_EQ(started.size(), 500U);
  // Between taking a range and noting it here two other threads may note theirs, so an index comes at most
  // two places early; how late it comes depends on the system.
  for (std::size_t i = 0; i < started.size(); ++i) {
    EXPECT_LE(started[i], static_cast<std::int64_t>(i) + 2);
  }
  std::sort(started.begin(), started.end());
  for (std::size_t i = 0; i < started.size(); ++i) EXPECT_EQ(started[i], static_cast<std::int64_t>(i));
}

TEST(ThreadPool, WhatABodyWroteIsThereAfterwards) {
  ThreadPool pool(4);
  std::vector<int> values(64);
  for (int round = 1; round <= 20000; ++round) {
    pool.parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += round;
    });
  }
  for (const int value : values) EXPECT_EQ(value, 20000 * 20001 / 2);
}

TEST(ThreadPool, TheFirstErrorReachesTheCallerAndThePoolGoesOn) {
  ThreadPool pool(3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(pool.parallel_for(100, 1,
                                   [](std::int64_t begin, std::int64_t, int) {
                                     if (begin == 42) throw std::runtime_error("the 42nd");
                                   }),
                 std::runtime_error);
    std::atomic<int> visits{0};
    pool.parallel_for(100, 1, [&](std::int64_t, std::int64_t, int) { ++visits; });
    EXPECT_EQ(visits, 100);
  }
}

TEST(ThreadPool, SeveralThreadsTakePart) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<int> seen;
  pool.parallel_for(3, 1, [&](std::int64_t, std::int64_t, int thread) {
    {
      const std::lock_guard lock(mutex);
      seen.insert(thread);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  EXPECT_GT(seen.size(), 1U);
}

#if defined(__GLIBC__)

// Address space for two more threads, whose stacks are made so large that nothing else counts.
class RoomForTwoThreads {
 public:
  RoomForTwoThreads() {
    getrlimit(RLIMIT_AS, &limit_);
    pthread_getattr_default_np(&attributes_);
    pthread_attr_t large;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, kStack);
    pthread_setattr_default_np(&large);
    pthread_attr_destroy(&large);
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit lower = limit_;
    lower.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + 5 * kStack / 2;
    setrlimit(RLIMIT_AS, &lower);
  }
  ~RoomForTwoThreads() {
    setrlimit(RLIMIT_AS, &limit_);
    pthread_setattr_default_np(&attributes_);
    pthread_attr_destroy(&attributes_);
  }
  RoomForTwoThreads(const RoomForTwoThreads&) = delete;
  RoomForTwoThreads& operator=(const RoomForTwoThreads&) = delete;

 private:
  static constexpr std::size_t kStack = std::size_t{1} << 30;
  rlimit limit_{};
  pthread_attr_t attributes_{};
};

TEST(ThreadPool, AThreadThatTheSystemRefusesIsAnErrorAndTheOthersEnd) {
  const RoomForTwoThreads room;
  const Error error = testing::raised([] { const ThreadPool pool(8); });
  EXPECT_EQ(error.kind(), ErrorKind::device);
  testing::expect_mentions(error, "cannot start thread 4 of 8: ");
}

#else

TEST(ThreadPool, AThreadThatTheSystemRefusesIsAnErrorAndTheOthersEnd) {
  GTEST_SKIP() << "this system has no way to make threads too large";
}

#endif

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(ThreadPool, IdleThreadsSleep) {
  ThreadPool pool(8);
  pool.parallel_for(64, 1, [](std::int64_t, std::int64_t, int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(processor_seconds() - before, 0.05);
}

}  // namespace
}  // namespace lily
