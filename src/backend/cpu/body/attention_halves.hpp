// Attention over a block of an f16 cache, in fp32, over any Simd.
#pragma once

#include "backend/cpu/body/attention_parts.hpp"
#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::kValueStrip;
using lily::cpu::KvView;
using lily::cpu::value_index;

// Register tiles of heads x blocks of 16 lanes: kAttentionTile accumulators hide the latency of the
// multiply-adds, and each key, value and query element is loaded once for several of them.
template <int kHeads>
constexpr int kTileLanes = Simd::kAttentionTile / kHeads > 0 ? Simd::kAttentionTile / kHeads : 1;

// Scores of kHeads queries against kBlocks x 16 positions.
template <int kHeads, int kBlocks>
LILY_INLINE void scores_of_blocks(const std::uint16_t* keys, int head_dim, const float* queries,
                                  float* scores) {
  const std::ptrdiff_t key_stride = static_cast<std::ptrdiff_t>(head_dim) * kLanes;
  F sum[kHeads][kBlocks];
  for (int h = 0; h < kHeads; ++h) {
    for (int b = 0; b < kBlocks; ++b) sum[h][b] = Simd::zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    F k[kBlocks];
#pragma GCC unroll 16
    for (int b = 0; b < kBlocks; ++b) {
      const std::uint16_t* key = keys + b * key_stride + static_cast<std::ptrdiff_t>(d) * kLanes;
      prefetch_behind(key);
      k[b] = Simd::load_half(key);
    }
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const F q = Simd::set1(queries[static_cast<std::ptrdiff_t>(h) * head_dim + d]);
#pragma GCC unroll 16
      for (int b = 0; b < kBlocks; ++b) sum[h][b] = Simd::fma(q, k[b], sum[h][b]);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int b = 0; b < kBlocks; ++b) Simd::store(scores + h * kAttentionBlock + b * kLanes, sum[h][b]);
  }
}

// out = out * correction + sum of weights * V for kHeads heads and kChunks x 16 dims, from the strip that
// starts with the first of them.
template <int kHeads, int kChunks>
LILY_INLINE void weighted_values(const std::uint16_t* values, int head_dim, int positions,
                                 const float* weights, const float* corrections, float* out) {
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
      const std::uint16_t* value = values + c / kChunksPerStrip * kValueStrip * kAttentionBlock +
                                   static_cast<std::ptrdiff_t>(s) * kValueStrip +
                                   c % kChunksPerStrip * kLanes;
      prefetch_behind(value);
      const F v = Simd::load_half(value);
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

void attend_halves(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
                   const AttentionState& state) {
  const int count = end - begin, padded = whole_lanes(count);
  alignas(64) float scores[kMaximumHeads * kAttentionBlock];
  float corrections[kMaximumHeads];
  for_head_tiles(heads, [&]<int kHeads>(int h) {
    const auto score = [&]<int kBlocks>(int s) {
      scores_of_blocks<kHeads, kBlocks>(
          static_cast<const std::uint16_t*>(kv.keys) +
              static_cast<std::ptrdiff_t>((begin + s) / kLanes) * head_dim * kLanes,
          head_dim, queries + static_cast<std::ptrdiff_t>(h) * head_dim, scores + h * kAttentionBlock + s);
    };
    constexpr int kBlocks = kTileLanes<kHeads>;
    int s = 0;
    for (; s + kBlocks * kLanes <= padded; s += kBlocks * kLanes) score.template operator()<kBlocks>(s);
    for (; s < padded; s += kLanes) score.template operator()<1>(s);
  });
  for (int h = 0; h < heads; ++h) {
    const F sum = softmax_row(scores + h * kAttentionBlock, count, padded, state.maximum[h], corrections[h]);
    state.sum[h] = state.sum[h] * corrections[h] + Simd::reduce_add(sum);
  }
  for_head_tiles(heads, [&]<int kHeads>(int h) {
    constexpr int kChunks = kTileLanes<kHeads> < kGroup / kLanes ? kTileLanes<kHeads> : kGroup / kLanes;
    for (int d = 0; d < head_dim; d += kChunks * kLanes) {
      weighted_values<kHeads, kChunks>(
          static_cast<const std::uint16_t*>(kv.values) + value_index(head_dim, begin, d), head_dim, count,
          scores + h * kAttentionBlock, corrections + h,
          state.values + static_cast<std::ptrdiff_t>(h) * head_dim + d);
    }
  });
}

}  // namespace
