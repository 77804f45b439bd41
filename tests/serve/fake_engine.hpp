// An engine that answers from a script, with delays and faults where a test wants them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lily/engine.hpp"

namespace lily::serve_test {

struct Script {
  std::vector<Delta> deltas;  // one token each
  std::chrono::milliseconds per_token{0};
  std::chrono::milliseconds per_chunk{0};  // of prefill
  int chunks = 1;
  std::optional<std::size_t> fails_at;  // throws `failure` instead of this delta
  Error failure{ErrorKind::internal, "non-finite logits at layer 3"};
  FinishReason finish = FinishReason::stop;
};

// Thinks "hmm" when thinking is on, then says "Hello there.".
Script default_script(const GenerationRequest& request);
// The answer "w w w ..." to the requested number of tokens.
Script endless_script(const GenerationRequest& request, std::chrono::milliseconds per_token);
Delta content(std::string text);
Delta reasoning(std::string text);

// Runs requests one at a time in the order of arrival, as the contract of Engine says.
class FakeEngine : public Engine {
 public:
  using Writer = std::function<Script(const GenerationRequest&)>;
  explicit FakeEngine(Writer writer = default_script, int context = 4096);

  const EngineInfo& info() const noexcept override { return info_; }
  const TextProtocol& text() const noexcept override { std::abort(); }  // the server has no use for it
  std::vector<TokenId> check(const GenerationRequest& request) const override;
  GenerationResult generate(const GenerationRequest& request, const GenerationCallbacks& callbacks,
                            std::stop_token stop) override;

  int tokens_made() const { return tokens_made_; }
  int runs_ended() const { return runs_ended_; }
  int in_generate() const { return in_generate_; }
  GenerationRequest last_request() const;

 private:
  void answer(const Script& script, const GenerationRequest& request, const GenerationCallbacks& callbacks,
              const std::stop_token& stop, GenerationResult& result);

  Writer writer_;
  EngineInfo info_;
  std::atomic<int> tokens_made_{0};
  std::atomic<int> runs_ended_{0};
  std::atomic<int> in_generate_{0};
  mutable std::mutex mutex_;
  std::condition_variable_any turn_;
  std::uint64_t next_ticket_ = 0;
  std::vector<std::uint64_t> queue_;
  GenerationRequest last_request_;
};

}  // namespace lily::serve_test
