// State of one sequence of the reference backend, all of it fp32.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.hpp"
#include "backend/reference/attention.hpp"
#include "backend/reference/delta_net.hpp"
#include "base/huge_buffer.hpp"
#include "model/dimensions.hpp"

namespace lily::reference {

class ReferenceSequence final : public backend::Sequence {
 public:
  // `threads` rows of attention scores are kept beside the state. Throws Error(out_of_memory).
  ReferenceSequence(const model::Dimensions& dims, int capacity, int threads);
  static std::uint64_t bytes(const model::Dimensions& dims, int capacity, int threads);

  void reset() noexcept override;
  void advance(int tokens) noexcept { position_ += tokens; }

  DeltaNetState delta_net(int layer) noexcept;  // `layer` counts the DeltaNet layers only
  KeyValueCache attention(int layer) noexcept;  // `layer` counts the attention layers only
  std::span<double> scores() noexcept;          // [threads][capacity]

 private:
  std::size_t window_size_;  // values of one layer
  std::size_t memory_size_;
  std::size_t cache_size_;        // values of the keys, and of the values, of one layer
  std::vector<float> recurrent_;  // per DeltaNet layer: window, memory
  HugeBuffer cache_;              // per attention layer: keys, values; pages are taken when first written
  HugeBuffer scores_;
};

}  // namespace lily::reference
