// One conversation's state on the CPU: DeltaNet state, convolution window, KV cache, all in huge pages.
#pragma once

#include "backend/backend.hpp"
#include "backend/cpu/kernels.hpp"
#include "base/huge_buffer.hpp"
#include "lily/engine.hpp"
#include "model/dimensions.hpp"

namespace lily::cpu {

class CpuSequence final : public backend::Sequence {
 public:
  CpuSequence(const model::Dimensions& dims, int capacity, KvFormat kv);

  void reset() noexcept override;
  void advance(int tokens) { position_ += tokens; }

  // [value_dim / 16][key_dim][16] of one head; `layer` counts DeltaNet layers.
  float* delta_state(int layer, int head) const;
  // The pre-convolution row [channels] of an earlier position, held for the last conv_kernel - 1 of them.
  float* window_row(int layer, int position) const;
  // `layer` counts attention layers.
  KvView kv(int layer, int kv_head) const;

  static std::uint64_t bytes(const model::Dimensions& dims, int capacity, KvFormat kv);
  static std::uint64_t kv_bytes_per_token(const model::Dimensions& dims, KvFormat kv);

 private:
  model::Dimensions dims_;
  bool int8_;
  std::size_t positions_;  // capacity in whole attention blocks
  HugeBuffer state_, window_, kv_;
};

}  // namespace lily::cpu
