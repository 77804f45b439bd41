// An engine behind the delays and faults of a case.
#include "serve/case_engine.hpp"

#include <algorithm>
#include <optional>
#include <thread>

#include "support/fixtures.hpp"

namespace lily::serve_test {
namespace {

struct Pace {
  std::chrono::milliseconds per_token{0};
  std::chrono::milliseconds per_chunk{0};
  int chunk = 1;  // prompt tokens of one
  std::optional<int> fails_at;
};

class PacedEngine : public Engine {
 public:
  PacedEngine(std::unique_ptr<Engine> engine, const Pace& pace) : engine_(std::move(engine)), pace_(pace) {}

  const EngineInfo& info() const noexcept override { return engine_->info(); }
  const TextProtocol& text() const noexcept override { return engine_->text(); }
  std::vector<TokenId> check(const GenerationRequest& request) const override {
    return engine_->check(request);
  }

  GenerationResult generate(const GenerationRequest& request, const GenerationCallbacks& callbacks,
                            std::stop_token stop) override {
    GenerationCallbacks paced;
    int chunks = 0;
    int tokens = 0;
    paced.prefill = [&](int done, int total) {
      for (; chunks < done / pace_.chunk; ++chunks) {
        pause(pace_.per_chunk, stop);
        if (callbacks.prefill) callbacks.prefill(std::min(total, (chunks + 1) * pace_.chunk), total);
      }
    };
    paced.delta = [&](const Delta& delta) {
      if (pace_.fails_at == tokens++) throw Error(ErrorKind::internal, "a fault put in by the test");
      pause(pace_.per_token, stop);
      if (callbacks.delta) callbacks.delta(delta);
    };
    return engine_->generate(request, paced, stop);
  }

 private:
  static void pause(std::chrono::milliseconds time, const std::stop_token& stop) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (!stop.stop_requested() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(time, std::chrono::milliseconds(2)));
    }
  }

  std::unique_ptr<Engine> engine_;
  const Pace pace_;
};

int number_of(const Json& object, const char* name, int otherwise) {
  const Json* value = object.find(name);
  return value == nullptr ? otherwise : static_cast<int>(value->as_integer().value());
}

}  // namespace

std::unique_ptr<Engine> open_case_engine(const Json& server) {
  EngineOptions options;
  options.model = testing::kTinyQ4;
  options.backend = "cpu";
  options.threads = 2;
  options.context = number_of(server, "ctx", 2048);
  options.max_queue = number_of(server, "max_queue", 64);
  Pace pace;
  pace.per_token = std::chrono::milliseconds(number_of(server, "delay_ms_per_token", 0));
  pace.per_chunk = std::chrono::milliseconds(number_of(server, "delay_ms_per_chunk", 0));
  pace.chunk = number_of(server, "chunk", 1);
  if (server.find("inject_error_at_token") != nullptr)
    pace.fails_at = number_of(server, "inject_error_at_token", 0);
  return std::make_unique<PacedEngine>(Engine::open(options), pace);
}

}  // namespace lily::serve_test
