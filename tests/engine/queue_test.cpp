// Requests that arrive together: order, overload, cancellation while waiting.
#include "engine/request_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "lily/error.hpp"
#include "support/raises.hpp"
#include "support/scripted_engine.hpp"

namespace lily::engine {
namespace {

using namespace std::chrono_literals;

// Starts a thread that asks for a turn and appends its number when it has it; returns once it waits.
class Visitors {
 public:
  explicit Visitors(RequestQueue& queue) : queue_(queue) {}

  void arrive(int number, std::stop_token stop = {}) {
    threads_.emplace_back([this, number, stop] {
      const RequestQueue::Turn turn = queue_.enter(stop);
      const std::lock_guard lock(mutex_);
      (turn ? served_ : turned_away_).push_back(number);
    });
    std::this_thread::sleep_for(30ms);  // long enough to be in the queue before the next one
  }

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  std::vector<int> served() {
    const std::lock_guard lock(mutex_);
    return served_;
  }
  std::vector<int> turned_away() {
    const std::lock_guard lock(mutex_);
    return turned_away_;
  }

 private:
  RequestQueue& queue_;
  std::mutex mutex_;
  std::vector<int> served_;
  std::vector<int> turned_away_;
  std::vector<std::thread> threads_;
};

TEST(RequestQueue, ServesInTheOrderOfArrival) {
  RequestQueue queue(8);
  Visitors visitors(queue);
  {
    const RequestQueue::Turn first = queue.enter({});
    for (int number = 1; number <= 5; ++number) visitors.arrive(number);
    EXPECT_TRUE(visitors.served().empty()) << "one at a time";
  }
  visitors.join();
  EXPECT_EQ(visitors.served(), (std::vector<int>{1, 2, 3, 4, 5}));
}

TEST(RequestQueue, RefusesTheOneTooMany) {
  for (const int room : {0, 1, 2}) {
    RequestQueue queue(room);
    Visitors visitors(queue);
    {
      const RequestQueue::Turn first = queue.enter({});
      for (int number = 0; number < room; ++number) visitors.arrive(number);
      const Error error = testing::raised([&] { queue.enter({}); });
      EXPECT_EQ(error.kind(), ErrorKind::overloaded);
      testing::expect_mentions(error, std::to_string(room));
    }
    visitors.join();
    EXPECT_EQ(visitors.served().size(), static_cast<std::size_t>(room));
    EXPECT_TRUE(queue.enter({})) << "free again";
  }
}

TEST(RequestQueue, AStoppedWaiterLeavesAndTheOthersMoveUp) {
  RequestQueue queue(3);
  Visitors visitors(queue);
  std::stop_source stop;
  std::optional<RequestQueue::Turn> first(queue.enter({}));
  visitors.arrive(1, stop.get_token());
  visitors.arrive(2);
  stop.request_stop();
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(visitors.turned_away(), (std::vector<int>{1}));
  visitors.arrive(3);
  visitors.arrive(4);  // its place is free
  first.reset();
  visitors.join();
  EXPECT_EQ(visitors.served(), (std::vector<int>{2, 3, 4}));
}

TEST(EngineQueue, OverloadIsAnErrorAndEveryOtherRequestIsAnswered) {
  const auto engine =
      testing::make_scripted_engine({.tokens = {70, 71}, .token_delay = 10ms}, {.max_queue = 2});
  std::atomic<int> answered{0};
  std::atomic<int> overloaded{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      GenerationRequest request = testing::continue_text("x");
      request.max_tokens = 20;
      request.ignore_eos = true;
      try {
        const GenerationResult result = engine->generate(request, {}, {});
        if (result.usage.completion_tokens == 20) ++answered;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::overloaded) ++overloaded;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GE(answered, 3);
  EXPECT_GE(overloaded, 1);
  EXPECT_EQ(answered + overloaded, 6);
}

TEST(EngineQueue, CancellingWhileWaitingCostsNothing) {
  const auto log = std::make_shared<testing::ScriptLog>();
  const auto engine = testing::make_scripted_engine({.tokens = {70, 71}, .token_delay = 10ms}, {}, log);
  GenerationRequest request = testing::continue_text("x");
  request.max_tokens = 20;
  request.ignore_eos = true;
  std::thread first([&] { engine->generate(request, {}, {}); });
  std::this_thread::sleep_for(50ms);
  std::stop_source stop;
  std::thread canceller([&] {
    std::this_thread::sleep_for(20ms);
    stop.request_stop();
  });
  const GenerationResult result = engine->generate(request, {}, stop.get_token());
  EXPECT_EQ(result.answer.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(result.usage.completion_tokens, 0);
  EXPECT_GE(result.timing.queued.count(), 0.015);
  first.join();
  canceller.join();
  EXPECT_EQ(log->decode_steps, 19);
}

}  // namespace
}  // namespace lily::engine
