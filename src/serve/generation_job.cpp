// One run of the engine on its own thread.
#include "serve/generation_job.hpp"

#include <utility>

namespace lily::serve {
namespace {

std::size_t bytes_of(const Delta& delta) {
  std::size_t bytes = sizeof(Delta) + delta.reasoning.size() + delta.content.size();
  for (const ToolCallDelta& call : delta.tool_calls) {
    bytes += sizeof(ToolCallDelta) + call.id.size() + call.name.size() + call.arguments.size();
  }
  return bytes;
}

}  // namespace

GenerationJob::GenerationJob(Engine& engine, GenerationRequest request)
    : thread_([this, &engine, held = std::move(request)] { run(engine, held); }) {}

GenerationJob::~GenerationJob() {
  cancel();
  thread_.join();
}

void GenerationJob::run(Engine& engine, const GenerationRequest& request) {
  std::optional<GenerationResult> result;
  std::exception_ptr failure;
  try {
    GenerationCallbacks callbacks;
    callbacks.prefill = [this](int done, int total) {
      const std::lock_guard lock(mutex_);
      prefilled_ = done;
      prompt_ = total;
      news_ = true;
      changed_.notify_one();
    };
    callbacks.delta = [this](const Delta& delta) { add(delta); };
    result = engine.generate(request, callbacks, stop_.get_token());
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  result_ = std::move(result);
  failure_ = failure;
  finished_ = true;
  changed_.notify_one();
}

void GenerationJob::add(const Delta& delta) {
  const std::lock_guard lock(mutex_);
  if (overrun_) return;
  unread_bytes_ += bytes_of(delta);
  if (unread_bytes_ > kMaxUnread) {
    overrun_ = true;
    stop_.request_stop();
  }
  unread_.push_back(delta);
  news_ = true;
  changed_.notify_one();
}

GenerationJob::Update GenerationJob::next(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return news_ || finished_; });
  news_ = false;
  unread_bytes_ = 0;
  return {std::exchange(unread_, {}), prefilled_, prompt_, finished_};
}

bool GenerationJob::overrun() const {
  const std::lock_guard lock(mutex_);
  return overrun_;
}

GenerationResult GenerationJob::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return finished_; });
  if (failure_) std::rethrow_exception(failure_);
  return std::move(*result_);
}

}  // namespace lily::serve
