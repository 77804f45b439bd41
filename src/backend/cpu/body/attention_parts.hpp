// What attention over 16-bit and over 8-bit caches shares: head tiles, prefetching, the softmax of a block.
#pragma once

#include <cmath>

#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::AttentionState;
using lily::cpu::kAttentionBlock;
using lily::cpu::key_scale_index;
using lily::cpu::kMaximumHeads;
using lily::cpu::value_scale_index;

// Keys and values are read in runs of some KiB, too short for the processor's own prefetching to keep up: the
// second-level cache is asked for what comes 8 KiB later (one core, 16-bit cache: 22 GB/s, 16 without, 17
// when the first-level cache is asked for what comes 2 KiB later).
LILY_INLINE void prefetch_behind(const void* p) {
  __builtin_prefetch(static_cast<const char*>(p) + 8192, 0, 2);
}

constexpr int kByteHeads = Simd::kAttentionTile < 8 ? 4 : 8;

// Calls operation<kHeads>(first) so that all heads are covered by tiles of kMost (2, 4 or 8) heads and fewer.
template <int kMost, class Operation>
LILY_INLINE void for_head_tiles(int heads, Operation operation) {
  int h = 0;
  if constexpr (kMost >= 8) {
    for (; h + 8 <= heads; h += 8) operation.template operator()<8>(h);
  }
  if constexpr (kMost >= 4) {
    for (; h + 4 <= heads; h += 4) operation.template operator()<4>(h);
  }
  for (; h + 2 <= heads; h += 2) operation.template operator()<2>(h);
  for (; h < heads; ++h) operation.template operator()<1>(h);
}

// Turns one head's scores of `count` positions into weights relative to the maximum so far, in place; those
// of the padding to whole lanes become tiny. Raises `maximum`; `correction` is what all sums so far are to be
// multiplied with. Returns the sum of the weights, by lanes.
LILY_INLINE F softmax_row(float* row, int count, int padded, float& maximum, float& correction) {
  for (int s = count; s < padded; ++s) row[s] = -INFINITY;
  F largest = Simd::set1(maximum);
  for (int s = 0; s < padded; s += kLanes) largest = Simd::max(largest, Simd::load(row + s));
  const float risen = Simd::reduce_max(largest);
  const F risen_lanes = Simd::set1(risen);
  F sum = Simd::zero();
  for (int s = 0; s < padded; s += kLanes) {
    const F weight = exponential(Simd::sub(Simd::load(row + s), risen_lanes));
    Simd::store(row + s, weight);
    sum = Simd::add(sum, weight);
  }
  correction = std::exp(maximum - risen);  // 0 for the first block
  maximum = risen;
  return sum;
}

LILY_INLINE int whole_lanes(int count) { return (count + kLanes - 1) / kLanes * kLanes; }

}  // namespace
