// Sizes and addresses of a sequence's state.
#include "backend/cpu/sequence.hpp"

#include <cstring>

namespace lily::cpu {

namespace {

std::size_t whole_blocks(int capacity) {
  return (static_cast<std::size_t>(capacity) + kAttentionBlock - 1) / kAttentionBlock * kAttentionBlock;
}

std::size_t code_bytes(bool int8) { return int8 ? sizeof(std::int8_t) : sizeof(std::int16_t); }

// Bytes of K (or V) of one position of one KV head.
std::size_t row_bytes(const model::Dimensions& dims, bool int8) {
  const auto dim = static_cast<std::size_t>(dims.head_dim);
  return dim * code_bytes(int8) + dim / kGroup * sizeof(float);
}

std::size_t state_bytes(const model::Dimensions& dims) {
  return static_cast<std::size_t>(model::state_sizes(dims).delta_net) * sizeof(float);
}

std::size_t window_bytes(const model::Dimensions& dims) {
  return static_cast<std::size_t>(model::state_sizes(dims).conv_window) * sizeof(float);
}

}  // namespace

CpuSequence::CpuSequence(const model::Dimensions& dims, int capacity, KvFormat kv)
    : Sequence(capacity),
      dims_(dims),
      int8_(kv == KvFormat::int8),
      positions_(whole_blocks(capacity)),
      state_(state_bytes(dims), "the DeltaNet state"),
      window_(window_bytes(dims), "the convolution window"),
      kv_(positions_ * kv_bytes_per_token(dims, kv), "the KV cache") {}

void CpuSequence::reset() noexcept {
  position_ = 0;
  std::memset(state_.data(), 0, state_bytes(dims_));
  std::memset(window_.data(), 0, window_bytes(dims_));
}

float* CpuSequence::delta_state(int layer, int head) const {
  const std::size_t per_head =
      static_cast<std::size_t>(dims_.value_dim) * static_cast<std::size_t>(dims_.key_dim);
  return state_.as<float>() + static_cast<std::size_t>(layer * dims_.value_heads + head) * per_head;
}

float* CpuSequence::window_row(int layer, int position) const {
  const int rows = dims_.conv_kernel - 1;
  const int slot = (position % rows + rows) % rows;  // positions before the first are rows of zeros
  return window_.as<float>() +
         static_cast<std::size_t>(layer * rows + slot) * static_cast<std::size_t>(dims_.conv_channels());
}

KvView CpuSequence::kv(int layer, int kv_head) const {
  const std::size_t half = positions_ * row_bytes(dims_, int8_);
  std::byte* keys = kv_.data() + static_cast<std::size_t>(layer * dims_.kv_heads + kv_head) * 2 * half;
  std::byte* values = keys + half;
  KvView view;
  view.int8 = int8_;
  view.keys = keys;
  view.values = values;
  const std::size_t codes = positions_ * static_cast<std::size_t>(dims_.head_dim) * code_bytes(int8_);
  view.key_scales = reinterpret_cast<float*>(keys + codes);
  view.value_scales = reinterpret_cast<float*>(values + codes);
  return view;
}

std::uint64_t CpuSequence::kv_bytes_per_token(const model::Dimensions& dims, KvFormat kv) {
  return static_cast<std::uint64_t>(dims.attention_layers() * dims.kv_heads) * 2 *
         row_bytes(dims, kv == KvFormat::int8);
}

std::uint64_t CpuSequence::bytes(const model::Dimensions& dims, int capacity, KvFormat kv) {
  return state_bytes(dims) + window_bytes(dims) + whole_blocks(capacity) * kv_bytes_per_token(dims, kv);
}

}  // namespace lily::cpu
