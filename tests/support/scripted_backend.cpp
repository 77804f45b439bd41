// A backend without a model.
#include "support/scripted_backend.hpp"

#include <algorithm>
#include <limits>
#include <thread>

#include "lily/error.hpp"

namespace lily::testing {
namespace {

class ScriptedSequence final : public backend::Sequence {
 public:
  ScriptedSequence(int capacity, std::shared_ptr<ScriptLog> log) : Sequence(capacity), log_(std::move(log)) {}

  void reset() noexcept override {
    position_ = 0;
    step = 0;
    poisoned = false;
    ++log_->resets;
  }

  void advance(int tokens) {
    if (poisoned) throw Error(ErrorKind::internal, "a poisoned sequence was advanced");
    if (tokens > capacity() - position()) throw Error(ErrorKind::too_long, "the sequence is full");
    position_ += tokens;
  }

  int step = 0;
  bool poisoned = false;

 private:
  std::shared_ptr<ScriptLog> log_;
};

class ScriptedBackend final : public backend::Backend {
 public:
  ScriptedBackend(Script script, std::shared_ptr<ScriptLog> log)
      : script_(std::move(script)), log_(log ? std::move(log) : std::make_shared<ScriptLog>()) {
    dims_.vocabulary = script_.vocabulary;
    dims_.max_positions = script_.max_positions;
  }

  const model::Dimensions& dimensions() const noexcept override { return dims_; }
  std::string description() const override { return "scripted"; }

  std::unique_ptr<backend::Sequence> new_sequence(int capacity) override {
    ++log_->sequences;
    return std::make_unique<ScriptedSequence>(capacity, log_);
  }

  std::uint64_t sequence_bytes(int capacity) const override {
    return script_.bytes_per_token * static_cast<std::uint64_t>(capacity);
  }
  std::uint64_t weight_bytes() const override { return script_.weight_bytes; }

  void prefill(backend::Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
               const backend::PrefillControl& control) override {
    auto& state = static_cast<ScriptedSequence&>(sequence);
    const int total = static_cast<int>(tokens.size());
    for (int done = 0; done < total;) {
      if (control.stop.stop_requested()) {
        state.poisoned = true;
        throw Error(ErrorKind::cancelled, "stopped");
      }
      const int count = std::min(script_.chunk, total - done);
      std::this_thread::sleep_for(script_.chunk_delay);
      state.advance(count);
      log_->prefill_tokens += count;
      done += count;
      if (control.progress) control.progress(done, total);
    }
    write_logits(state, logits);
  }

  void decode(backend::Sequence& sequence, TokenId, std::span<float> logits) override {
    auto& state = static_cast<ScriptedSequence&>(sequence);
    state.advance(1);
    ++log_->decode_steps;
    write_logits(state, logits);
  }

  backend::DecodeTraffic decode_traffic(int) const override { return {}; }
  backend::MachineLimits measure_limits() override { return {}; }

 private:
  void write_logits(ScriptedSequence& state, std::span<float> logits) {
    std::this_thread::sleep_for(script_.token_delay);
    const int step = state.step++;
    if (step == script_.error_at) {
      state.poisoned = true;
      throw Error(ErrorKind::device, "the scripted device failed");
    }
    for (std::size_t id = 0; id < logits.size(); ++id)
      logits[id] = static_cast<float>(id * 37 % 101) / 101.0F;
    logits[static_cast<std::size_t>(token(step))] = 20;
    if (step == script_.nan_at) logits[1] = std::numeric_limits<float>::quiet_NaN();
  }

  TokenId token(int step) const {
    return script_.tokens[static_cast<std::size_t>(step) % script_.tokens.size()];
  }

  Script script_;
  std::shared_ptr<ScriptLog> log_;
  model::Dimensions dims_;
};

}  // namespace

std::unique_ptr<backend::Backend> make_scripted_backend(Script script, std::shared_ptr<ScriptLog> log) {
  return std::make_unique<ScriptedBackend>(std::move(script), std::move(log));
}

}  // namespace lily::testing
