// The CPU backend's face: loads, owns the weights and hands sequences to the decoder and the prefiller.
#include "backend/cpu/cpu_backend.hpp"

#include <fmt/format.h>

#include "backend/cpu/forward.hpp"
#include "backend/cpu/limits.hpp"
#include "backend/cpu/select.hpp"
#include "backend/decode_traffic.hpp"
#include "backend/step_arguments.hpp"
#include "lily/error.hpp"

namespace lily::cpu {

namespace {

// What the attention kernels hold on their stacks.
const model::Dimensions& require_kernels(const model::Dimensions& dims) {
  if (dims.queries_per_kv() > kMaximumHeads) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} query heads per KV head; the CPU kernels take up to {}",
                            dims.queries_per_kv(), kMaximumHeads));
  }
  if (dims.queries_per_kv() * dims.head_dim > kMaximumQueryColumns) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} query heads of {} dims per KV head; the CPU kernels take up to {} values",
                            dims.queries_per_kv(), dims.head_dim, kMaximumQueryColumns));
  }
  return dims;
}

RowFormat prefill_rows(const Kernels& kernels, Activations activations) {
  switch (activations) {
    case Activations::exact:
      return RowFormat::two_terms;
    case Activations::fast:
      return kernels.fast_rows;
    case Activations::automatic:
      break;
  }
  return kernels.automatic_rows;
}

class CpuBackend final : public backend::Backend {
 public:
  CpuBackend(std::shared_ptr<const checkpoint::Checkpoint> checkpoint, const CpuOptions& options)
      : checkpoint_(std::move(checkpoint)),
        dims_(require_kernels(checkpoint_->dimensions())),
        kv_(options.kv),
        kernels_(select_kernels(options.instruction_set)),
        pool_(options.threads > 0 ? options.threads : available_cores()),
        weights_(load_weights(*checkpoint_, pool_, options.progress)),
        decoder_(context(), options.activations != Activations::fast),
        prefiller_(context(), prefill_rows(kernels_, options.activations)) {}

  const model::Dimensions& dimensions() const noexcept override { return dims_; }

  std::string description() const override {
    return fmt::format("cpu ({}, {} thread{})", kernels_.name, pool_.size(), pool_.size() == 1 ? "" : "s");
  }

  std::unique_ptr<backend::Sequence> new_sequence(int capacity) override {
    return std::make_unique<CpuSequence>(dims_, capacity, kv_);
  }

  std::uint64_t sequence_bytes(int capacity) const override {
    return CpuSequence::bytes(dims_, capacity, kv_);
  }
  std::uint64_t weight_bytes() const override { return weights_.arena.size(); }
  std::uint64_t scratch_bytes() const override { return prefiller_.bytes(); }

  void prefill(backend::Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
               const backend::PrefillControl& control) override {
    prefiller_.run(check(sequence, tokens, logits), tokens, logits, control);
  }

  void decode(backend::Sequence& sequence, TokenId token, std::span<float> logits) override {
    decoder_.step(check(sequence, {&token, 1}, logits), token, logits);
  }

  backend::DecodeTraffic decode_traffic(int position) const override {
    const double kv_bytes = static_cast<double>(CpuSequence::kv_bytes_per_token(dims_, kv_)) /
                            static_cast<double>(model::state_sizes(dims_).kv_per_token);
    return backend::decode_traffic(*checkpoint_, {.kv_bytes = kv_bytes, .window_bytes = sizeof(float)},
                                   position);
  }

  backend::MachineLimits measure_limits() override {
    return cpu::measure_limits(kernels_, pool_, {weights_.arena.data(), weights_.arena.size()});
  }

 private:
  Context context() { return {dims_, weights_, kernels_, pool_}; }

  CpuSequence& check(backend::Sequence& sequence, std::span<const TokenId> tokens,
                     std::span<float> logits) const {
    backend::check_step(sequence, tokens, logits, dims_.vocabulary);
    return dynamic_cast<CpuSequence&>(sequence);
  }

  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
  model::Dimensions dims_;
  KvFormat kv_;
  const Kernels& kernels_;
  ThreadPool pool_;
  Weights weights_;
  Decoder decoder_;
  Prefiller prefiller_;
};

}  // namespace

std::unique_ptr<backend::Backend> open_cpu_backend(std::shared_ptr<const checkpoint::Checkpoint> checkpoint,
                                                   const CpuOptions& options) {
  return std::make_unique<CpuBackend>(std::move(checkpoint), options);
}

}  // namespace lily::cpu
