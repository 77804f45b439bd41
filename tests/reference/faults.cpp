// The reference backend, broken on purpose.
#include "reference/faults.hpp"

#include <algorithm>
#include <array>

#include "backend/reference/reference_backend.hpp"
#include "backend/reference/reference_sequence.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "support/fixtures.hpp"

namespace lily::testing {
namespace {

// Passes everything on, and damages a sequence's state in the middle of the prompt or before every token that
// is decoded.
class FaultyBackend final : public backend::Backend {
 public:
  FaultyBackend(std::unique_ptr<backend::Backend> sound, Fault fault)
      : sound_(std::move(sound)), fault_(fault) {}

  const model::Dimensions& dimensions() const noexcept override { return sound_->dimensions(); }
  std::string description() const override { return sound_->description(); }
  std::unique_ptr<backend::Sequence> new_sequence(int capacity) override {
    return sound_->new_sequence(capacity);
  }
  std::uint64_t sequence_bytes(int capacity) const override { return sound_->sequence_bytes(capacity); }
  std::uint64_t weight_bytes() const override { return sound_->weight_bytes(); }
  backend::DecodeTraffic decode_traffic(int position) const override {
    return sound_->decode_traffic(position);
  }
  backend::MachineLimits measure_limits() override { return sound_->measure_limits(); }

  void prefill(backend::Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
               const backend::PrefillControl& control) override {
    const std::size_t half = tokens.size() / 2;
    sound_->prefill(sequence, tokens.first(half), logits, control);
    if (fault_ == Fault::snapshot_without_keys) clear_keys(sequence);
    sound_->prefill(sequence, tokens.subspan(half), logits, control);
  }

  void decode(backend::Sequence& sequence, TokenId token, std::span<float> logits) override {
    if (fault_ == Fault::keys_lost) clear_keys(sequence);
    for (int layer = 0; layer < dimensions().delta_net_layers(); ++layer) {
      const reference::DeltaNetState state = state_of(sequence).delta_net(layer);
      if (fault_ == Fault::memory_lost) clear(state.memory);
      if (fault_ == Fault::window_lost) clear(state.window);
    }
    sound_->decode(sequence, token, logits);
  }

 private:
  static reference::ReferenceSequence& state_of(backend::Sequence& sequence) {
    return static_cast<reference::ReferenceSequence&>(sequence);
  }

  static void clear(std::span<float> values) { std::fill(values.begin(), values.end(), 0.0F); }

  void clear_keys(backend::Sequence& sequence) const {
    for (int layer = 0; layer < dimensions().attention_layers(); ++layer) {
      clear(state_of(sequence).attention(layer).keys);
    }
  }

  std::unique_ptr<backend::Backend> sound_;
  Fault fault_;
};

// Neighbouring rows of the router's tensors change places: 0 and 1, 2 and 3, and so on.
void swap_experts(EditedCheckpoint& checkpoint) {
  for (auto& [name, tensor] : checkpoint.tensors) {
    if (name.find(".mlp.gate.") == std::string::npos) continue;
    const std::size_t row = tensor.data.size() / static_cast<std::size_t>(tensor.shape.front());
    for (std::size_t first = 0; first + 2 * row <= tensor.data.size(); first += 2 * row) {
      const auto left = tensor.data.begin() + static_cast<std::ptrdiff_t>(first);
      const auto right = left + static_cast<std::ptrdiff_t>(row);
      std::swap_ranges(left, right, right);
    }
  }
}

std::unique_ptr<backend::Backend> open_reference(const std::filesystem::path& folder, int threads) {
  return reference::open_reference_backend(checkpoint::Checkpoint::open(folder), threads);
}

}  // namespace

std::string to_string(Fault fault) {
  constexpr std::array kNames = {"none",      "window_lost",           "memory_lost",
                                 "keys_lost", "snapshot_without_keys", "experts_swapped"};
  return kNames.at(static_cast<std::size_t>(fault));
}

std::unique_ptr<backend::Backend> open_faulty_backend(Fault fault, int threads) {
  if (fault != Fault::experts_swapped) {
    return std::make_unique<FaultyBackend>(open_reference(kMini, threads), fault);
  }
  EditedCheckpoint edited = EditedCheckpoint::load(kMini);
  swap_experts(edited);
  const TemporaryFolder folder;  // mapped files outlive their names
  edited.save(folder.path());
  return open_reference(folder.path(), threads);
}

}  // namespace lily::testing
