// KV cache rows and attention over a block of positions, over any Simd.
#pragma once

#include <cmath>

#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::AttentionState;
using lily::cpu::kAttentionBlock;
using lily::cpu::kValueStrip;
using lily::cpu::KvView;
using lily::cpu::value_index;

constexpr int kMaximumHeads = 16;

LILY_INLINE float largest_magnitude(const float* x, int n) {
  F a = Simd::zero();
  for (int i = 0; i < n; i += kLanes) a = Simd::max(a, Simd::abs(Simd::load(x + i)));
  return Simd::reduce_max(a);
}

void store_kv(const KvView& kv, int head_dim, int position, const float* key, const float* value) {
  const std::ptrdiff_t block = position / kLanes, lane = position % kLanes;
  const std::ptrdiff_t key_base = block * head_dim * kLanes + lane;
  if (!kv.int8) {
    auto* keys = static_cast<std::uint16_t*>(kv.keys);
    auto* values = static_cast<std::uint16_t*>(kv.values);
    for (int d = 0; d < head_dim; d += kLanes) {
      Simd::store_half(values + value_index(head_dim, position, d), Simd::load(value + d));
      std::uint16_t halves[kLanes];
      Simd::store_half(halves, Simd::load(key + d));
      for (int i = 0; i < kLanes; ++i)
        keys[key_base + static_cast<std::ptrdiff_t>(d + i) * kLanes] = halves[i];
    }
    return;
  }
  auto* keys = static_cast<std::int8_t*>(kv.keys);
  auto* values = static_cast<std::int8_t*>(kv.values);
  const int groups = head_dim / kGroup;
  for (int g = 0; g < groups; ++g) {
    const float key_scale = largest_magnitude(key + g * kGroup, kGroup) / 127;
    const float value_scale = largest_magnitude(value + g * kGroup, kGroup) / 127;
    const F key_inverse = Simd::set1(key_scale > 0 ? 1 / key_scale : 0);
    const F value_inverse = Simd::set1(value_scale > 0 ? 1 / value_scale : 0);
    kv.key_scales[(block * groups + g) * kLanes + lane] = key_scale;
    kv.value_scales[static_cast<std::ptrdiff_t>(position) * groups + g] = value_scale;
    for (int d = g * kGroup; d < (g + 1) * kGroup; d += kLanes) {
      Simd::store_int8(values + value_index(head_dim, position, d),
                       Simd::round(Simd::mul(Simd::load(value + d), value_inverse)));
      std::int8_t codes[kLanes];
      Simd::store_int8(codes, Simd::round(Simd::mul(Simd::load(key + d), key_inverse)));
      for (int i = 0; i < kLanes; ++i)
        keys[key_base + static_cast<std::ptrdiff_t>(d + i) * kLanes] = codes[i];
    }
  }
}

LILY_INLINE F load_element(const std::uint16_t* p) { return Simd::load_half(p); }
LILY_INLINE F load_element(const std::int8_t* p) { return Simd::load_int8(p); }

// Keys and values are read in runs of some KiB, too short for the processor's own prefetching to keep up:
// asking for what comes 2 KiB later takes a tenth off decode's attention (838 to 760 us for 8 MiB, one core).
LILY_INLINE void prefetch_behind(const void* p) { __builtin_prefetch(static_cast<const char*>(p) + 2048); }

// Register tiles of heads x blocks of 16 lanes: kAttentionTile accumulators hide the latency of the
// multiply-adds, and each key, value and query element is loaded once for several of them.
template <int kHeads>
constexpr int kTileLanes = Simd::kAttentionTile / kHeads > 0 ? Simd::kAttentionTile / kHeads : 1;

// Scores of kHeads queries against kBlocks x 16 positions.
template <int kHeads, int kBlocks, class Element>
LILY_INLINE void scores_of_blocks(const Element* keys, const float* key_scales, int head_dim,
                                  const float* queries, float* scores) {
  constexpr bool kScaled = sizeof(Element) == 1;
  const std::ptrdiff_t key_stride = static_cast<std::ptrdiff_t>(head_dim) * kLanes;
  const std::ptrdiff_t scale_stride = key_stride / kGroup;
  F total[kHeads][kBlocks];
  for (int h = 0; h < kHeads; ++h) {
    for (int b = 0; b < kBlocks; ++b) total[h][b] = Simd::zero();
  }
  const int run = kScaled ? kGroup : head_dim;
  for (int start = 0; start < head_dim; start += run) {
    F sum[kHeads][kBlocks];
    for (int h = 0; h < kHeads; ++h) {
      for (int b = 0; b < kBlocks; ++b) sum[h][b] = Simd::zero();
    }
    for (int d = start; d < start + run; ++d) {
      F k[kBlocks];
#pragma GCC unroll 16
      for (int b = 0; b < kBlocks; ++b) {
        const Element* key = keys + b * key_stride + static_cast<std::ptrdiff_t>(d) * kLanes;
        prefetch_behind(key);
        k[b] = load_element(key);
      }
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        const F q = Simd::set1(queries[static_cast<std::ptrdiff_t>(h) * head_dim + d]);
#pragma GCC unroll 16
        for (int b = 0; b < kBlocks; ++b) sum[h][b] = Simd::fma(q, k[b], sum[h][b]);
      }
    }
    for (int b = 0; b < kBlocks; ++b) {
      if constexpr (kScaled) {
        const F scale =
            Simd::load(key_scales + b * scale_stride + static_cast<std::ptrdiff_t>(start / kGroup) * kLanes);
        for (int h = 0; h < kHeads; ++h) total[h][b] = Simd::fma(scale, sum[h][b], total[h][b]);
      } else {
        for (int h = 0; h < kHeads; ++h) total[h][b] = sum[h][b];
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int b = 0; b < kBlocks; ++b) Simd::store(scores + h * kAttentionBlock + b * kLanes, total[h][b]);
  }
}

// out = out * correction + sum of weights * V for kHeads heads and kChunks x 16 dims, from the strip that
// starts with the first of them.
template <int kHeads, int kChunks, class Element>
LILY_INLINE void weighted_values(const Element* values, int head_dim, int positions, const float* weights,
                                 const float* corrections, float* out) {
  F sum[kHeads][kChunks];
  for (int h = 0; h < kHeads; ++h) {
    const F correction = Simd::set1(corrections[h]);
    for (int c = 0; c < kChunks; ++c) {
      sum[h][c] =
          Simd::mul(correction, Simd::load(out + static_cast<std::ptrdiff_t>(h) * head_dim + c * kLanes));
    }
  }
  for (int s = 0; s < positions; ++s) {
#pragma GCC unroll 4
    for (int c = 0; c < kChunks; ++c) {
      constexpr int kChunksPerStrip = kValueStrip / kLanes;
      const Element* value = values + c / kChunksPerStrip * kValueStrip * kAttentionBlock +
                             static_cast<std::ptrdiff_t>(s) * kValueStrip + c % kChunksPerStrip * kLanes;
      prefetch_behind(value);
      const F v = load_element(value);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        sum[h][c] = Simd::fma(Simd::set1(weights[h * kAttentionBlock + s]), v, sum[h][c]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < kChunks; ++c) {
      Simd::store(out + static_cast<std::ptrdiff_t>(h) * head_dim + c * kLanes, sum[h][c]);
    }
  }
}

// Calls operation<kHeads>(first) so that all heads are covered by tiles of 8, 4, 2 and 1.
template <class Operation>
LILY_INLINE void for_head_tiles(int heads, Operation operation) {
  int h = 0;
  if constexpr (Simd::kAttentionTile >= 8) {
    for (; h + 8 <= heads; h += 8) operation.template operator()<8>(h);
  }
  for (; h + 4 <= heads; h += 4) operation.template operator()<4>(h);
  for (; h + 2 <= heads; h += 2) operation.template operator()<2>(h);
  for (; h < heads; ++h) operation.template operator()<1>(h);
}

template <class Element>
void attend_as(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
               const AttentionState& state) {
  const int count = end - begin;
  const int groups = head_dim / kGroup;
  alignas(64) float scores[kMaximumHeads * kAttentionBlock];
  alignas(64) float scaled[sizeof(Element) == 1 ? kMaximumHeads * kAttentionBlock : 1];
  float corrections[kMaximumHeads];

  const int padded = (count + kLanes - 1) / kLanes * kLanes;
  for_head_tiles(heads, [&]<int kHeads>(int h) {
    const auto score = [&]<int kBlocks>(int s) {
      const std::ptrdiff_t block = (begin + s) / kLanes;
      scores_of_blocks<kHeads, kBlocks>(
          static_cast<const Element*>(kv.keys) + block * head_dim * kLanes,
          sizeof(Element) == 1 ? kv.key_scales + block * groups * kLanes : nullptr, head_dim,
          queries + static_cast<std::ptrdiff_t>(h) * head_dim, scores + h * kAttentionBlock + s);
    };
    constexpr int kBlocks = kTileLanes<kHeads>;
    int s = 0;
    for (; s + kBlocks * kLanes <= padded; s += kBlocks * kLanes) score.template operator()<kBlocks>(s);
    for (; s < padded; s += kLanes) score.template operator()<1>(s);
  });

  for (int h = 0; h < heads; ++h) {
    float* row = scores + h * kAttentionBlock;
    for (int s = count; s < padded; ++s) row[s] = -INFINITY;
    F largest = Simd::set1(state.maximum[h]);
    for (int s = 0; s < padded; s += kLanes) largest = Simd::max(largest, Simd::load(row + s));
    const float maximum = Simd::reduce_max(largest);
    const F maximum_lanes = Simd::set1(maximum);
    F sum = Simd::zero();
    for (int s = 0; s < padded; s += kLanes) {
      const F weight = exponential(Simd::sub(Simd::load(row + s), maximum_lanes));
      Simd::store(row + s, weight);
      sum = Simd::add(sum, weight);
    }
    corrections[h] = std::exp(state.maximum[h] - maximum);  // 0 for the first block
    state.sum[h] = state.sum[h] * corrections[h] + Simd::reduce_add(sum);
    state.maximum[h] = maximum;
  }

  for (int g = 0; g < groups; ++g) {
    const float* weights = scores;
    if constexpr (sizeof(Element) == 1) {
      const float* value_scales = kv.value_scales + static_cast<std::ptrdiff_t>(begin) * groups + g;
      for (int h = 0; h < heads; ++h) {
        for (int s = 0; s < count; ++s) {
          scaled[h * kAttentionBlock + s] =
              scores[h * kAttentionBlock + s] * value_scales[static_cast<std::ptrdiff_t>(s) * groups];
        }
      }
      weights = scaled;
    }
    for_head_tiles(heads, [&]<int kHeads>(int h) {
      constexpr int kChunks = kTileLanes<kHeads> < kGroup / kLanes ? kTileLanes<kHeads> : kGroup / kLanes;
      for (int d = g * kGroup; d < (g + 1) * kGroup; d += kChunks * kLanes) {
        const Element* values = static_cast<const Element*>(kv.values) + value_index(head_dim, begin, d);
        weighted_values<kHeads, kChunks>(values, head_dim, count, weights + h * kAttentionBlock,
                                         corrections + h,
                                         state.values + static_cast<std::ptrdiff_t>(h) * head_dim + d);
      }
    });
  }
}

void attend(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
            const AttentionState& state) {
  if (kv.int8) {
    attend_as<std::int8_t>(kv, head_dim, queries, heads, begin, end, state);
  } else {
    attend_as<std::uint16_t>(kv, head_dim, queries, heads, begin, end, state);
  }
}

}  // namespace
