// State of one sequence of the reference backend.
#include "backend/reference/reference_sequence.hpp"

#include <algorithm>

namespace lily::reference {
namespace {

std::size_t window_size(const model::Dimensions& dims) {
  return static_cast<std::size_t>(dims.conv_kernel - 1) * static_cast<std::size_t>(dims.conv_channels());
}

std::size_t memory_size(const model::Dimensions& dims) {
  return static_cast<std::size_t>(dims.value_rows()) * static_cast<std::size_t>(dims.key_dim);
}

std::size_t cache_size(const model::Dimensions& dims, int capacity) {
  return static_cast<std::size_t>(capacity) * static_cast<std::size_t>(dims.kv_rows());
}

std::size_t recurrent_values(const model::Dimensions& dims) {
  return static_cast<std::size_t>(dims.delta_net_layers()) * (window_size(dims) + memory_size(dims));
}

std::size_t cache_bytes(const model::Dimensions& dims, int capacity) {
  return static_cast<std::size_t>(dims.attention_layers()) * 2 * cache_size(dims, capacity) * sizeof(float);
}

std::size_t score_bytes(int capacity, int threads) {
  return static_cast<std::size_t>(capacity) * static_cast<std::size_t>(threads) * sizeof(double);
}

}  // namespace

ReferenceSequence::ReferenceSequence(const model::Dimensions& dims, int capacity, int threads)
    : Sequence(capacity),
      window_size_(window_size(dims)),
      memory_size_(memory_size(dims)),
      cache_size_(cache_size(dims, capacity)),
      recurrent_(recurrent_values(dims)),
      cache_(cache_bytes(dims, capacity), "the reference backend's KV cache"),
      scores_(score_bytes(capacity, threads), "the reference backend's attention scores") {}

std::uint64_t ReferenceSequence::bytes(const model::Dimensions& dims, int capacity, int threads) {
  return recurrent_values(dims) * sizeof(float) + cache_bytes(dims, capacity) +
         score_bytes(capacity, threads);
}

void ReferenceSequence::reset() noexcept {
  position_ = 0;
  std::fill(recurrent_.begin(), recurrent_.end(), 0.0F);  // cached keys beyond the position are never read
}

DeltaNetState ReferenceSequence::delta_net(int layer) noexcept {
  float* first = recurrent_.data() + static_cast<std::size_t>(layer) * (window_size_ + memory_size_);
  return {{first, window_size_}, {first + window_size_, memory_size_}};
}

KeyValueCache ReferenceSequence::attention(int layer) noexcept {
  float* first = cache_.as<float>() + static_cast<std::size_t>(layer) * 2 * cache_size_;
  return {{first, cache_size_}, {first + cache_size_, cache_size_}};
}

std::span<double> ReferenceSequence::scores() noexcept {
  return {scores_.as<double>(), scores_.size() / sizeof(double)};
}

}  // namespace lily::reference
