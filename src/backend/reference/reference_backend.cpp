// The reference forward pass: embedding, layers, final norm, head.
#include "backend/reference/reference_backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "backend/decode_traffic.hpp"
#include "backend/reference/experts.hpp"
#include "backend/reference/norms.hpp"
#include "backend/reference/projection.hpp"
#include "backend/reference/reference_sequence.hpp"
#include "backend/step_arguments.hpp"
#include "base/thread_pool.hpp"
#include "lily/error.hpp"

namespace lily::reference {
namespace {

// Tokens that pass through a layer together: enough to decode each weight row rarely, few enough for small
// scratch and quick cancellation.
constexpr int kChunkTokens = 128;

constexpr backend::StateFormat kStateFormat{.kv_bytes = sizeof(float), .window_bytes = sizeof(float)};

class ReferenceBackend final : public backend::Backend {
 public:
  ReferenceBackend(std::shared_ptr<const checkpoint::Checkpoint> checkpoint, int threads,
                   HiddenObserver observer)
      : checkpoint_(std::move(checkpoint)),
        pool_(threads > 0 ? threads : available_cores()),
        context_{*checkpoint_, pool_},
        observer_(std::move(observer)) {}

  const model::Dimensions& dimensions() const noexcept override { return checkpoint_->dimensions(); }

  std::string description() const override {
    return fmt::format("reference ({} thread{})", pool_.size(), pool_.size() == 1 ? "" : "s");
  }

  std::unique_ptr<backend::Sequence> new_sequence(int capacity) override {
    return std::make_unique<ReferenceSequence>(dimensions(), capacity, pool_.size());
  }

  std::uint64_t sequence_bytes(int capacity) const override {
    return ReferenceSequence::bytes(dimensions(), capacity, pool_.size());
  }

  std::uint64_t weight_bytes() const override { return backend::stored_weight_bytes(*checkpoint_); }

  void prefill(backend::Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
               const backend::PrefillControl& control) override;

  void decode(backend::Sequence& sequence, TokenId token, std::span<float> logits) override {
    prefill(sequence, std::array{token}, logits, {});
  }

  backend::DecodeTraffic decode_traffic(int position) const override {
    return backend::decode_traffic(*checkpoint_, kStateFormat, position);
  }

  backend::MachineLimits measure_limits() override;

 private:
  // Advances by one chunk; returns the rows after the final norm.
  Rows forward(ReferenceSequence& sequence, std::span<const TokenId> tokens, const std::stop_token& stop);
  Rows embed(std::span<const TokenId> tokens) const;
  void observe(int layer, int position, const Rows& hidden) const;

  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
  mutable ThreadPool pool_;
  Context context_;
  HiddenObserver observer_;
};

void ReferenceBackend::prefill(backend::Sequence& sequence, std::span<const TokenId> tokens,
                               std::span<float> logits, const backend::PrefillControl& control) {
  backend::check_step(sequence, tokens, logits, dimensions().vocabulary);
  auto& state = static_cast<ReferenceSequence&>(sequence);
  const int total = static_cast<int>(tokens.size());
  for (int done = 0; done < total;) {
    const int count = std::min(kChunkTokens, total - done);
    const int position = state.position();
    const Rows hidden = forward(
        state, tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)), control.stop);
    done += count;
    if (control.every_position) {
      const Rows rows = project(context_, checkpoint_->head(), 0, hidden);
      for (int row = 0; row < count; ++row) control.every_position(position + row, rows[row]);
      std::copy(rows[count - 1].begin(), rows[count - 1].end(), logits.begin());
    } else if (done == total) {
      project(context_, checkpoint_->head(), hidden[count - 1], logits);
    }
    if (control.progress) control.progress(done, total);
  }
}

Rows ReferenceBackend::forward(ReferenceSequence& sequence, std::span<const TokenId> tokens,
                               const std::stop_token& stop) {
  const model::Dimensions& dims = dimensions();
  const int position = sequence.position();
  int delta_net_index = 0;
  int attention_index = 0;
  Rows hidden = embed(tokens);
  observe(0, position, hidden);
  for (int index = 0; index < dims.layer_count(); ++index) {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "stopped while reading the prompt");
    const checkpoint::Layer& layer = checkpoint_->layers()[static_cast<std::size_t>(index)];
    const Rows mixer_input = rms_norm(hidden, layer.input_norm, dims.rms_norm_eps);
    if (layer.kind == model::LayerKind::delta_net) {
      add_delta_net(context_, dims, *layer.delta_net, mixer_input, sequence.delta_net(delta_net_index++),
                    hidden);
    } else {
      add_attention(context_, dims, *layer.attention, mixer_input, position,
                    sequence.attention(attention_index++), sequence.scores(), hidden);
    }
    const Rows moe_input = rms_norm(hidden, layer.post_attention_norm, dims.rms_norm_eps);
    add_experts(context_, layer.moe, dims.experts_per_token, moe_input, hidden);
    if (index + 1 < dims.layer_count()) observe(index + 1, position, hidden);
  }
  sequence.advance(static_cast<int>(tokens.size()));
  hidden = rms_norm(hidden, checkpoint_->final_norm(), dims.rms_norm_eps);
  observe(dims.layer_count(), position, hidden);
  return hidden;
}

Rows ReferenceBackend::embed(std::span<const TokenId> tokens) const {
  Rows rows(static_cast<int>(tokens.size()), static_cast<std::size_t>(dimensions().hidden_size));
  for (int row = 0; row < rows.count(); ++row) {
    decode_row(*checkpoint_, checkpoint_->embedding(), 0, tokens[static_cast<std::size_t>(row)], rows[row]);
  }
  return rows;
}

void ReferenceBackend::observe(int layer, int position, const Rows& hidden) const {
  if (!observer_) return;
  for (int row = 0; row < hidden.count(); ++row) observer_(layer, position + row, hidden[row]);
}

// How fast all threads together read memory that no cache holds. There is no integer arithmetic here, so that
// limit stays 0.
backend::MachineLimits ReferenceBackend::measure_limits() {
  constexpr std::int64_t kValues = std::int64_t{32} << 20;  // 256 MiB of doubles
  constexpr int kRepeats = 3;
  const std::vector<double> memory(static_cast<std::size_t>(kValues), 1.0);
  std::vector<double> sums(static_cast<std::size_t>(pool_.size()) * 8);  // a cache line per thread
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    pool_.parallel_for(kValues, kValues / (4 * pool_.size()),
                       [&](std::int64_t begin, std::int64_t end, int thread) {
                         std::array<double, 16> lanes{};
                         for (std::int64_t i = begin; i + 16 <= end; i += 16) {
                           for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
                             lanes[lane] += memory[static_cast<std::size_t>(i) + lane];
                           }
                         }
                         for (const double lane : lanes) sums[static_cast<std::size_t>(thread) * 8] += lane;
                       });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(kValues) * sizeof(double) / elapsed.count() / 1e9);
  }
  return {.stream_gb_per_s = best, .int8_tera_ops = 0};
}

}  // namespace

std::unique_ptr<backend::Backend> open_reference_backend(
    std::shared_ptr<const checkpoint::Checkpoint> checkpoint, int threads, HiddenObserver observer) {
  return std::make_unique<ReferenceBackend>(std::move(checkpoint), threads, std::move(observer));
}

}  // namespace lily::reference
