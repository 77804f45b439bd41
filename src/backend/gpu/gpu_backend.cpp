// The backend over any GPU device.
#include "backend/gpu/gpu_backend.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/decode_traffic.hpp"
#include "backend/gpu/forward.hpp"
#include "lily/error.hpp"

namespace lily::gpu {
namespace {

// Tokens of a prompt that go through a layer together.
constexpr uint kChunk = 32;

constexpr backend::StateFormat kStateFormat{.kv_bytes = sizeof(half), .window_bytes = sizeof(float)};

class GpuBackend final : public backend::Backend {
 public:
  GpuBackend(std::unique_ptr<Device> device, std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
             int threads, const Progress& progress)
      : device_(std::move(device)),
        checkpoint_(std::move(checkpoint)),
        dims_(checkpoint_->dimensions()),
        weights_(load(threads, progress)),
        model_{dims_, weights_, device_->multiprocessors()} {}

  const model::Dimensions& dimensions() const noexcept override { return dims_; }
  std::string description() const override { return device_->description(); }

  std::unique_ptr<backend::Sequence> new_sequence(int capacity) override {
    return std::make_unique<GpuSequence>(*device_, dims_, capacity, rows_for(capacity));
  }
  std::uint64_t sequence_bytes(int capacity) const override {
    return SequenceSizes(dims_, capacity, rows_for(capacity), device_->multiprocessors()).bytes();
  }
  std::uint64_t weight_bytes() const override { return weights_.arena.bytes(); }

  void prefill(backend::Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
               const backend::PrefillControl& control) override;
  void decode(backend::Sequence& sequence, TokenId token, std::span<float> logits) override;

  backend::DecodeTraffic decode_traffic(int position) const override {
    return backend::decode_traffic(*checkpoint_, kStateFormat, position);
  }
  backend::MachineLimits measure_limits() override { return device_->measure_limits(); }

 private:
  Weights load(int threads, const Progress& progress) {
    ThreadPool pool(threads > 0 ? threads : available_cores());
    return load_weights(*checkpoint_, *device_, pool, progress);
  }
  static uint rows_for(int capacity) { return std::min(kChunk, static_cast<uint>(std::max(capacity, 1))); }

  GpuSequence& check(backend::Sequence& sequence, std::span<const TokenId> tokens,
                     std::span<float> logits) const;
  // Token ids and counters of a pass.
  void begin(GpuSequence& sequence, std::span<const TokenId> tokens);
  void read_logits(const GpuSequence& sequence, std::size_t row, std::span<float> logits);

  std::unique_ptr<Device> device_;
  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
  model::Dimensions dims_;
  Weights weights_;
  Model model_;
};

GpuSequence& GpuBackend::check(backend::Sequence& sequence, std::span<const TokenId> tokens,
                               std::span<float> logits) const {
  for (const TokenId token : tokens) {
    if (token < 0 || token >= dims_.vocabulary) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("token id {} is outside the vocabulary of {}", token, dims_.vocabulary));
    }
  }
  if (tokens.empty() || logits.size() != static_cast<std::size_t>(dims_.vocabulary)) {
    throw Error(ErrorKind::internal, fmt::format("{} tokens and room for {} logits, need at least 1 and {}",
                                                 tokens.size(), logits.size(), dims_.vocabulary));
  }
  const auto length =
      static_cast<std::int64_t>(sequence.position()) + static_cast<std::int64_t>(tokens.size());
  if (length > sequence.capacity()) {
    throw Error(ErrorKind::too_long,
                fmt::format("{} tokens do not fit a sequence of {}", length, sequence.capacity()));
  }
  return dynamic_cast<GpuSequence&>(sequence);
}

void GpuBackend::begin(GpuSequence& sequence, std::span<const TokenId> tokens) {
  sequence.prepare();
  const std::vector<uint> ids(tokens.begin(), tokens.end());
  device_->write(sequence.buffers().tokens.address(), std::as_bytes(std::span(ids)));
}

void GpuBackend::read_logits(const GpuSequence& sequence, std::size_t row, std::span<float> logits) {
  device_->read(sequence.buffers().logits.as<float>(row * logits.size()), std::as_writable_bytes(logits));
}

void GpuBackend::prefill(backend::Sequence& sequence, std::span<const TokenId> tokens,
                         std::span<float> logits, const backend::PrefillControl& control) {
  GpuSequence& state = check(sequence, tokens, logits);
  const int total = static_cast<int>(tokens.size()), layers = dims_.layer_count();
  for (int done = 0; done < total;) {
    const int count = std::min(static_cast<int>(state.buffers().rows), total - done);
    const Recorder recorder(model_, state, static_cast<uint>(count));
    begin(state, tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)));
    // A plan per layer, so that a stop is heard between them.
    for (int layer = 0; layer < layers; ++layer) {
      if (control.stop.stop_requested())
        throw Error(ErrorKind::cancelled, "stopped while reading the prompt");
      Plan plan;
      if (layer == 0) recorder.embedding(plan);
      recorder.layer(plan, layer);
      device_->run(plan);
      const auto share = static_cast<std::int64_t>(count) * (layer + 1) / layers;
      if (control.progress) control.progress(done + static_cast<int>(share), total);
    }
    const bool last = done + count == total;
    if (control.every_position || last) {
      Plan plan;
      recorder.head(plan, control.every_position ? 0 : static_cast<uint>(count - 1));
      device_->run(plan);
    }
    device_->finish();
    const int position = state.position();
    state.advance(count);
    done += count;
    if (control.every_position) {
      for (int row = 0; row < count; ++row) {
        read_logits(state, static_cast<std::size_t>(row), logits);
        control.every_position(position + row, logits);
      }
    } else if (last) {
      read_logits(state, 0, logits);
    }
  }
}

void GpuBackend::decode(backend::Sequence& sequence, TokenId token, std::span<float> logits) {
  GpuSequence& state = check(sequence, {&token, 1}, logits);
  begin(state, {&token, 1});
  std::optional<Plan>& plan = state.decode_plan();
  if (!plan) {
    const Recorder recorder(model_, state, 1);
    plan.emplace();
    recorder.embedding(*plan);
    for (int layer = 0; layer < dims_.layer_count(); ++layer) recorder.layer(*plan, layer);
    recorder.head(*plan, 0);
  }
  device_->run(*plan);
  device_->finish();
  state.advance(1);
  read_logits(state, 0, logits);
}

}  // namespace

std::unique_ptr<backend::Backend> open_gpu_backend(std::unique_ptr<Device> device,
                                                   std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
                                                   int threads, const Progress& progress) {
  return std::make_unique<GpuBackend>(std::move(device), std::move(checkpoint), threads, progress);
}

}  // namespace lily::gpu
