// The backend over any GPU device.
#include "backend/gpu/gpu_backend.hpp"

#include <algorithm>
#include <optional>

#include "backend/decode_traffic.hpp"
#include "backend/gpu/select.hpp"
#include "backend/gpu/token_stream.hpp"
#include "backend/step_arguments.hpp"
#include "lily/error.hpp"

namespace lily::gpu {
namespace {

SequenceShape shape_of(int capacity, KvFormat kv, uint multiprocessors) {
  const uint rows = std::min(static_cast<uint>(std::max(capacity, 1)), prefill_rows(multiprocessors));
  return {capacity, rows, kv, multiprocessors};
}

class GpuBackend final : public backend::Backend {
 public:
  GpuBackend(std::unique_ptr<Device> device, std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
             KvFormat kv, int threads, const Progress& progress)
      : device_(std::move(device)),
        checkpoint_(std::move(checkpoint)),
        dims_(checkpoint_->dimensions()),
        kv_(kv),
        weights_(load(threads, progress)),
        model_{dims_, weights_, device_->multiprocessors()} {}

  const model::Dimensions& dimensions() const noexcept override { return dims_; }
  std::string description() const override { return device_->description(); }

  std::unique_ptr<backend::Sequence> new_sequence(int capacity) override {
    return std::make_unique<GpuSequence>(*device_, dims_, shape(capacity));
  }
  std::uint64_t sequence_bytes(int capacity) const override {
    return GpuSequence::memory(dims_, shape(capacity)).total;
  }
  std::uint64_t weight_bytes() const override { return weights_.arena.bytes(); }
  std::uint64_t memory() const override { return device_->memory(); }

  void prefill(backend::Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
               const backend::PrefillControl& control) override;
  void decode(backend::Sequence& sequence, TokenId token, std::span<float> logits) override;

  std::unique_ptr<backend::TokenStream> stream(backend::Sequence& sequence,
                                               const backend::SamplingRules& rules, int limit) override {
    return std::make_unique<GpuTokenStream>(*device_, model_, dynamic_cast<GpuSequence&>(sequence), rules,
                                            limit);
  }

  backend::DecodeTraffic decode_traffic(int position) const override {
    return backend::decode_traffic(
        *checkpoint_, {.kv_bytes = kv_value_bytes(kv_), .window_bytes = sizeof(float)}, position);
  }
  backend::MachineLimits measure_limits() override { return device_->measure_limits(); }

 private:
  Weights load(int threads, const Progress& progress) {
    ThreadPool pool(threads > 0 ? threads : available_cores());
    return load_weights(*checkpoint_, *device_, pool, progress);
  }
  SequenceShape shape(int capacity) const { return shape_of(capacity, kv_, device_->multiprocessors()); }

  GpuSequence& check(backend::Sequence& sequence, std::span<const TokenId> tokens,
                     std::span<float> logits) const;
  template <class LayerRecorder>
  void layers(const LayerRecorder& recorder, const std::stop_token& stop);
  void run_head(const Recorder& recorder, uint first, uint count);
  void all_logits(const Recorder& recorder, const GpuSequence& state, int count, std::span<float> logits,
                  const backend::LogitsSink& sink);
  void read_logits(const GpuSequence& sequence, std::size_t row, std::span<float> logits);

  std::unique_ptr<Device> device_;
  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
  model::Dimensions dims_;
  KvFormat kv_;
  Weights weights_;
  Model model_;
};

GpuSequence& GpuBackend::check(backend::Sequence& sequence, std::span<const TokenId> tokens,
                               std::span<float> logits) const {
  backend::check_step(sequence, tokens, logits, dims_.vocabulary);
  return dynamic_cast<GpuSequence&>(sequence);
}

void GpuBackend::read_logits(const GpuSequence& sequence, std::size_t row, std::span<float> logits) {
  device_->read(sequence.pass().logits.at(row * logits.size()), std::as_writable_bytes(logits));
}

void GpuBackend::prefill(backend::Sequence& sequence, std::span<const TokenId> tokens,
                         std::span<float> logits, const backend::PrefillControl& control) {
  GpuSequence& state = check(sequence, tokens, logits);
  const auto total = static_cast<int>(tokens.size());
  state.prepare_prompt(tokens);
  const auto passed = [&](int done) {
    if (control.progress) control.progress(done, total);
  };
  // A pass is recorded while the one before it runs, and waits for that one's end: so no more than two are
  // under way when the prompt is stopped.
  std::optional<Device::Mark> previous;
  for (int done = 0; done < total;) {
    const int count = std::min(static_cast<int>(state.shape().rows), total - done);
    const PassInputs inputs = state.prompt_pass(done, count);
    if (count == 1) {
      layers(DecodeRecorder(model_, state, inputs), control.stop);
    } else {
      layers(PrefillRecorder(model_, state, inputs), control.stop);
    }
    const Recorder recorder(model_, state, inputs);
    if (control.every_position) {
      all_logits(recorder, state, count, logits, control.every_position);
    } else if (done + count == total) {
      run_head(recorder, static_cast<uint>(count - 1), 1);
    }
    if (previous) {
      device_->wait(*previous);
      passed(done);
    }
    previous = device_->mark();
    state.advance(count);
    done += count;
  }
  state.set_has_logits(!control.every_position);
  if (control.every_position) {
    device_->finish();
  } else {
    read_logits(state, 0, logits);
  }
  passed(total);
}

// A plan per layer, so that a stop is heard between them.
template <class LayerRecorder>
void GpuBackend::layers(const LayerRecorder& recorder, const std::stop_token& stop) {
  for (int layer = 0; layer < dims_.layer_count(); ++layer) {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "stopped while reading the prompt");
    Plan plan;
    if (layer == 0) recorder.embedding(plan);
    recorder.layer(plan, layer);
    device_->run(plan);
  }
}

void GpuBackend::run_head(const Recorder& recorder, uint first, uint count) {
  Plan plan;
  recorder.head(plan, first, count);
  device_->run(plan);
}

void GpuBackend::all_logits(const Recorder& recorder, const GpuSequence& state, int count,
                            std::span<float> logits, const backend::LogitsSink& sink) {
  const auto rows = static_cast<uint>(count), piece = state.shape().logit_rows();
  for (uint first = 0; first < rows; first += piece) {
    const uint here = std::min(piece, rows - first);
    run_head(recorder, first, here);
    for (uint row = 0; row < here; ++row) {
      read_logits(state, row, logits);
      sink(state.position() + static_cast<int>(first + row), logits);
    }
  }
}

void GpuBackend::decode(backend::Sequence& sequence, TokenId token, std::span<float> logits) {
  GpuSequence& state = check(sequence, {&token, 1}, logits);
  state.prepare_step(token);
  std::unique_ptr<PreparedPlan>& step = state.plans().logits;
  if (!step) {
    const DecodeRecorder recorder(model_, state, state.step_inputs());
    Plan plan;
    recorder.step(plan);
    recorder.head(plan, 0, 1);
    step = device_->prepare(std::move(plan));
  }
  step->run();
  state.set_has_logits(true);
  state.advance(1);
  read_logits(state, 0, logits);
}

}  // namespace

SequenceMemory sequence_memory(const model::Dimensions& dims, int capacity, KvFormat kv,
                               uint multiprocessors) {
  return GpuSequence::memory(dims, shape_of(capacity, kv, multiprocessors));
}

// Codes come with a float per group of 64.
double kv_value_bytes(KvFormat kv) { return kv == KvFormat::int8 ? 1 + sizeof(float) / 64.0 : sizeof(half); }

std::unique_ptr<backend::Backend> open_gpu_backend(std::unique_ptr<Device> device,
                                                   std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
                                                   KvFormat kv, int threads, const Progress& progress) {
  return std::make_unique<GpuBackend>(std::move(device), std::move(checkpoint), kv, threads, progress);
}

}  // namespace lily::gpu
