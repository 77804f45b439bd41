// One run of the engine on a thread of its own, read piece by piece by the connection's thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "lily/engine.hpp"

namespace lily::serve {

// The engine never waits for a socket: it leaves deltas here. A reader that falls too far behind costs a
// bounded amount of memory; then the run is cancelled.
class GenerationJob {
 public:
  static constexpr std::size_t kMaxUnread = 1 << 20;  // bytes of deltas

  // `engine` must outlive the job.
  GenerationJob(Engine& engine, GenerationRequest request);
  ~GenerationJob();  // cancels and waits for the engine to let go
  GenerationJob(const GenerationJob&) = delete;
  GenerationJob& operator=(const GenerationJob&) = delete;

  struct Update {
    std::vector<Delta> deltas;  // since the last update
    int prefilled = 0;          // prompt tokens done
    int prompt = 0;             // of so many; 0 while waiting in the queue
    bool finished = false;      // take() will not block
  };
  // Waits until there is something new to read, at most `patience`.
  Update next(std::chrono::milliseconds patience);

  // Asks the engine to end at its next layer or step.
  void cancel() noexcept { stop_.request_stop(); }
  // Whether the reader fell behind by more than kMaxUnread.
  bool overrun() const;

  // The result, once finished; rethrows what the engine threw.
  GenerationResult take();

 private:
  void run(Engine& engine, const GenerationRequest& request);
  void add(const Delta& delta);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Delta> unread_;
  std::size_t unread_bytes_ = 0;
  int prefilled_ = 0;
  int prompt_ = 0;
  bool news_ = false;
  bool overrun_ = false;
  bool finished_ = false;
  std::optional<GenerationResult> result_;
  std::exception_ptr failure_;
  std::stop_source stop_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace lily::serve
