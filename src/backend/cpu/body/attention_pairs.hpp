// Attention over a block of a 16-bit cache, over any Simd: integer products of pairs of 16-bit codes, 32 an
// instruction on AVX-512 where fp32 does 16 and converts first (1.8 times the rate over halves).
#pragma once

#include <algorithm>

#include "backend/cpu/body/attention_parts.hpp"
#include "backend/cpu/body/code_lanes.hpp"
#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::key_index;
using lily::cpu::kKeyStrip;
using lily::cpu::kMaximumQueryColumns;
using lily::cpu::kPairLimit;
using lily::cpu::kValueStrip;
using lily::cpu::KvView;
using lily::cpu::value_index;

// Queries and softmax weights get 16-bit codes that share a scale: x ~ scale * code. Their range is what no
// sum can overflow: 64 products of codes a_i <= kPairLimit of the cache and b_i of these are at most
//   kPairLimit * sum |b_i| <= kPairLimit * (kCodeSum + 64 / 2) < 2^31,
// where rounding to integers adds half at most to each of the 64, and the other 32 are for rounding in fp32
// (70 operations of 2^-24, of a sum of 2^17). 64 equal values so have 11 bits, values that are few or of
// different size up to 15.
constexpr float kCodeSum = static_cast<float>(INT32_MAX / kPairLimit - 64);

// Codes of `count` values (a multiple of 16), load(i) gives 16 of them, whose runs of 64 are summed apart;
// returns their scale, NaN when a value is not finite.
template <class Load>
LILY_INLINE float encode_pairs(int count, const Load& load, std::int16_t* codes) {
  // By lanes: the largest sum of magnitudes of a run. All lanes together are at least each run's sum, one
  // lane is at least each value.
  F largest = Simd::zero(), poison = Simd::zero();
  for (int run = 0; run < count; run += kGroup) {
    F sum = Simd::zero();
    for (int i = run; i < std::min(run + kGroup, count); i += kLanes) {
      sum = Simd::add(sum, Simd::abs(load(i)));
    }
    largest = Simd::max(largest, sum);
    poison = Simd::fma(sum, Simd::zero(), poison);
  }
  const float scale =
      std::max(Simd::reduce_add(largest) * (1 / kCodeSum), Simd::reduce_max(largest) * (1.0F / INT16_MAX));
  const F inverse = Simd::set1(scale > 1e-30F ? 1 / scale : 0.0F);
  for (int i = 0; i < count; i += kLanes) {
    Simd::store_int16(codes + i, Simd::round(Simd::mul(load(i), inverse)));
  }
  return scale + Simd::reduce_add(poison);
}

// Codes of the queries of the heads that share a KV head, one scale per group: [group][head][64 dims].
struct QueryPairs {
  QueryPairs(const float* queries, int head_dim, int heads) {
    std::int16_t* to = codes;
    float* scale = scales;
    for (int g = 0; g < head_dim; g += kGroup) {
      for (int h = 0; h < heads; ++h, to += kGroup) {
        const float* query = queries + static_cast<std::ptrdiff_t>(h) * head_dim + g;
        *scale++ = encode_pairs(
            kGroup, [&](int i) { return Simd::load(query + i); }, to);
      }
    }
  }
  alignas(64) std::int16_t codes[kMaximumQueryColumns];
  float scales[kMaximumQueryColumns / kGroup];
};

// Register tiles of heads x blocks of 16 lanes: as many accumulators as in fp32 hide the latency of the
// products, and each code of keys, values, queries and weights is loaded once for several of them.
constexpr int kPairTile =
    Simd::kAttentionTile * static_cast<int>(sizeof(I)) / static_cast<int>(sizeof(Simd::PairDots));
constexpr int kPairHeads = kPairTile < 8 ? kPairTile : 8;
template <int kHeads>
constexpr int kPairBlocks = kPairTile / kHeads < 2 ? 1 : 2;
constexpr int kPairUnroll = Simd::kChunkUnroll;

// out[head][lane] += code_scales[head] * lane_scales[lane] * the sum of `count` (a multiple of 16, at most
// 64) codes times those of the cache, for kHeads heads and kBlocks x 16 of the 32 lanes of a strip: positions
// of keys, or dims of values, which have no scale here. A function of its own with several pairs in a loop,
// so that the sums stay in registers and are not copied around the loop (AVX2: 544 us in place of 667 for
// 4,096 positions).
template <class S, bool kKeys, int kHeads, int kBlocks>
[[gnu::noinline]] void add_pair_products(const std::int16_t* strip, const std::int16_t* codes, int count,
                                         const float* code_scales, const float* lane_scales,
                                         std::ptrdiff_t scale_stride, float* out, std::ptrdiff_t out_stride) {
  constexpr int kStride = kKeys ? kGroup : kAttentionBlock;  // of codes, from head to head
  constexpr int kRow = 2 * (kKeys ? kKeyStrip : kValueStrip);
  typename S::PairDots dots[kHeads][kBlocks];
  for (int h = 0; h < kHeads; ++h) {
    for (int b = 0; b < kBlocks; ++b) dots[h][b] = S::pair_dots_zero();
  }
  for (const std::int16_t* end = codes + count; codes < end; codes += kLanes, strip += kLanes / 2 * kRow) {
#pragma GCC unroll kPairUnroll
    for (int i = 0; i < kLanes / 2; ++i) {
      I row[kBlocks];
#pragma GCC unroll 2
      for (int b = 0; b < kBlocks; ++b) {
        const std::int16_t* at = strip + i * kRow + b * 2 * kLanes;
        prefetch_behind(at);
        row[b] = S::load_words(at);
      }
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        const auto pair = S::load_pair(codes + h * kStride + 2 * i);
#pragma GCC unroll 2
        for (int b = 0; b < kBlocks; ++b) dots[h][b] = S::dot_pairs(dots[h][b], row[b], pair);
      }
    }
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int h = 0; h < kHeads; ++h) {
      F sum = S::to_float(S::join_pairs(dots[h][b]));
      if constexpr (kKeys) sum = S::mul(sum, S::load(lane_scales + b * scale_stride));
      float* to = out + h * out_stride + b * kLanes;
      S::store(to, S::fma(sum, S::set1(code_scales[h]), S::load(to)));
    }
  }
}

// Scales lie apart from the codes and are few, so they are asked for long before (3 % of decode's attention).
LILY_INLINE void prefetch_scales(const float* p, int count) {
  for (int i = 0; i < count; i += kLanes) __builtin_prefetch(p + i, 0, 2);
}

// scores[head][position] = query * key for whole strips.
template <class S>
void all_pair_scores(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int count,
                     float* scores) {
  const QueryPairs pairs(queries, head_dim, heads);
  std::fill_n(scores, heads * kAttentionBlock, 0.0F);
  const std::ptrdiff_t scale_stride = head_dim / kGroup * kLanes;
  // Positions outside: a strip stays in the first-level cache for all tiles.
  for (int s = 0; s < count; s += kKeyStrip) {
    const auto* keys = static_cast<const std::int16_t*>(kv.keys) + key_index(head_dim, begin + s, 0);
    const float* scales = kv.key_scales + key_scale_index(head_dim, begin + s, 0);
    const int per_strip = head_dim / kGroup * kKeyStrip;
    prefetch_scales(scales + 4 * per_strip, per_strip);
    prefetch_scales(kv.value_scales + value_scale_index(head_dim, begin, 0) + s / kKeyStrip * per_strip,
                    per_strip);
    for (int g = 0; g < head_dim / kGroup; ++g) {
      for_head_tiles<kPairHeads>(heads, [&]<int kHeads>(int h) {
        constexpr int kBlocks = kPairBlocks<kHeads>;
        for (int b = 0; b < kKeyStrip / kLanes; b += kBlocks) {
          add_pair_products<S, true, kHeads, kBlocks>(
              keys + g * kGroup * kKeyStrip + b * 2 * kLanes,
              pairs.codes + static_cast<std::ptrdiff_t>(g * heads + h) * kGroup, kGroup,
              pairs.scales + g * heads + h, scales + b * scale_stride + g * kLanes, scale_stride,
              scores + h * kAttentionBlock + s + b * kLanes, kAttentionBlock);
        }
      });
    }
  }
}

// Adds a group of dims of weights * V, whose codes and scales are given, to out[head][dim].
template <class S>
void add_pair_values(const std::int16_t* values, int head_dim, const std::int16_t* weights,
                     const float* scales, int heads, int positions, float* out) {
  for (int d = 0; d < kGroup; d += kValueStrip, values += kAttentionBlock * kValueStrip) {
    for (int s = 0; s < positions; s += kGroup) {
      for_head_tiles<kPairHeads>(heads, [&]<int kHeads>(int h) {
        constexpr int kBlocks = kPairBlocks<kHeads>;
        for (int b = 0; b < kValueStrip / kLanes; b += kBlocks) {
          add_pair_products<S, false, kHeads, kBlocks>(
              values + s * kValueStrip + b * 2 * kLanes, weights + h * kAttentionBlock + s,
              std::min(kGroup, positions - s), scales + h, nullptr, 0,
              out + static_cast<std::ptrdiff_t>(h) * head_dim + d + b * kLanes, head_dim);
        }
      });
    }
  }
}

template <class S>
void attend_pairs(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
                  const AttentionState& state) {
  const int count = end - begin, padded = whole_lanes(count);
  alignas(64) float scores[kMaximumHeads * kAttentionBlock];
  alignas(64) float tail[kAttentionBlock];
  alignas(64) std::int16_t weights[kMaximumHeads * kAttentionBlock];
  float scales[kMaximumHeads];
  all_pair_scores<S>(kv, head_dim, queries, heads, begin, count, scores);
  for (int h = 0; h < heads; ++h) {
    float correction;
    const F sum = softmax_row(scores + h * kAttentionBlock, count, padded, state.maximum[h], correction);
    state.sum[h] = state.sum[h] * correction + S::reduce_add(sum);
    float* out = state.values + static_cast<std::ptrdiff_t>(h) * head_dim;
    for (int d = 0; d < head_dim; d += kLanes) {
      S::store(out + d, S::mul(S::set1(correction), S::load(out + d)));
    }
  }
  for (int g = 0; g < head_dim; g += kGroup) {
    const float* value_scales = kv.value_scales + value_scale_index(head_dim, begin, g);
    if (count < padded) {  // scales behind the last position were never written
      std::copy_n(value_scales, count, tail);
      std::fill(tail + count, tail + padded, 0.0F);
      value_scales = tail;
    }
    for (int h = 0; h < heads; ++h) {
      const float* row = scores + h * kAttentionBlock;
      const auto scaled = [&](int s) { return S::mul(S::load(row + s), S::load(value_scales + s)); };
      scales[h] = encode_pairs(padded, scaled, weights + h * kAttentionBlock);
    }
    add_pair_values<S>(static_cast<const std::int16_t*>(kv.values) + value_index(head_dim, begin, g),
                       head_dim, weights, scales, heads, padded, state.values + g);
  }
}

}  // namespace
