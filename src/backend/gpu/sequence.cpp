// One conversation on a device.
#include "backend/gpu/sequence.hpp"

#include <algorithm>
#include <array>

#include "backend/gpu/select.hpp"

namespace lily::gpu {
namespace {

std::size_t padded(int rows) {
  constexpr std::size_t kTile = WeightBlock::rows;
  return (static_cast<std::size_t>(rows) + kTile - 1) / kTile * kTile;
}

template <class T>
Region part(const DeviceMemory& memory, std::size_t index, std::size_t count) {
  return region(memory.as<T>(index * count), count);
}

}  // namespace

SequenceSizes::SequenceSizes(const model::Dimensions& dims, int capacity, uint rows, uint multiprocessors)
    : state(static_cast<std::size_t>(dims.value_rows()) * static_cast<std::size_t>(dims.key_dim)),
      window(DeltaRing::window_rows * static_cast<std::size_t>(dims.conv_channels())),
      kv(static_cast<std::size_t>(dims.kv_rows()) * static_cast<std::size_t>(capacity)),
      delta_layers(static_cast<std::size_t>(dims.delta_net_layers())),
      attention_layers(static_cast<std::size_t>(dims.attention_layers())),
      hidden(rows * static_cast<std::size_t>(dims.hidden_size)),
      projection(rows * std::max(padded(dims.conv_channels()) + padded(dims.value_rows()) +
                                     2 * padded(dims.value_heads),
                                 padded(dims.query_gate_rows()) + 2 * padded(dims.kv_rows()))),
      inner(rows * static_cast<std::size_t>(std::max(dims.attention_rows(), dims.value_rows()))),
      queries(rows * static_cast<std::size_t>(dims.attention_rows())),
      splits(0),
      router(rows * (padded(dims.experts) + padded(1))),
      activations(rows * static_cast<std::size_t>(dims.experts_per_token * dims.expert_size +
                                                  dims.shared_expert_size)),
      logits(rows * static_cast<std::size_t>(dims.vocabulary)) {
  for (uint n = 1; n <= rows; ++n) {
    const uint count =
        attention_splits(static_cast<uint>(capacity), static_cast<uint>(dims.kv_heads), n, multiprocessors);
    splits = std::max(splits, std::size_t{n} * count * static_cast<std::size_t>(dims.attention_heads));
  }
}

std::uint64_t SequenceSizes::bytes() const {
  const std::size_t floats = delta_layers * (kStateRing * state + window) + hidden + projection + inner +
                             queries + splits * (AttentionSplit::dim + 2) + router + activations + logits;
  return floats * sizeof(float) + attention_layers * 2 * kv * sizeof(half);
}

PassBuffers::PassBuffers(Device& device, const SequenceSizes& sizes, uint row_count)
    : rows(row_count),
      tokens(device.allocate(row_count * sizeof(uint), "tokens of a pass")),
      x(device.allocate(sizes.hidden * sizeof(float), "the residual stream of a pass")),
      projection(device.allocate(sizes.projection * sizeof(float), "projections of a pass")),
      inner(device.allocate(sizes.inner * sizeof(float), "mixer outputs of a pass")),
      queries(device.allocate(sizes.queries * sizeof(float), "queries of a pass")),
      partial(
          device.allocate(sizes.splits * AttentionSplit::dim * sizeof(float), "attention splits of a pass")),
      maximum(device.allocate(sizes.splits * sizeof(float), "attention splits of a pass")),
      sums(device.allocate(sizes.splits * sizeof(float), "attention splits of a pass")),
      router(device.allocate(sizes.router * sizeof(float), "router logits of a pass")),
      activations(device.allocate(sizes.activations * sizeof(float), "expert activations of a pass")),
      logits(device.allocate(sizes.logits * sizeof(float), "logits of a pass")) {}

GpuSequence::GpuSequence(Device& device, const model::Dimensions& dims, int capacity, uint rows)
    : Sequence(capacity),
      device_(device),
      sizes_(dims, capacity, rows, device.multiprocessors()),
      counters_(device.allocate(2 * sizeof(uint), "counters")),
      states_(device.allocate(sizes_.delta_layers * kStateRing * sizes_.state * sizeof(float),
                              "DeltaNet states")),
      windows_(device.allocate(sizes_.delta_layers * sizes_.window * sizeof(float), "convolution windows")),
      kv_(device.allocate(sizes_.attention_layers * 2 * sizes_.kv * sizeof(half), "the KV cache")),
      buffers_(device, sizes_, rows) {}

void GpuSequence::reset() noexcept {
  position_ = 0;
  step_ = 0;
}

void GpuSequence::prepare() {
  // Window rows and keys beyond the position are never read.
  if (position_ == 0) device_.clear(states_.address(), states_.bytes());
  const std::array<uint, 2> counters{static_cast<uint>(position_), step_};
  device_.write(counters_.address(), std::as_bytes(std::span(counters)));
}

Region GpuSequence::states(int layer) const {
  return part<float>(states_, static_cast<std::size_t>(layer), kStateRing * sizes_.state);
}
Region GpuSequence::window(int layer) const {
  return part<float>(windows_, static_cast<std::size_t>(layer), sizes_.window);
}
Region GpuSequence::keys(int layer) const {
  return part<half>(kv_, 2 * static_cast<std::size_t>(layer), sizes_.kv);
}
Region GpuSequence::values(int layer) const {
  return part<half>(kv_, 2 * static_cast<std::size_t>(layer) + 1, sizes_.kv);
}

}  // namespace lily::gpu
