// Attention over a block of an 8-bit cache in fp32, for instruction sets that do not multiply unsigned with
// signed bytes.
#pragma once

#include "backend/cpu/body/attention_parts.hpp"
#include "backend/cpu/body/code_lanes.hpp"
#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::KvView;
using lily::cpu::value_code_index;

// Scores of kHeads queries against the 16 positions whose codes and scales are given.
template <class S, int kHeads>
LILY_INLINE void scores_of_codes(const std::uint8_t* keys, const float* key_scales, int head_dim,
                                 const float* queries, float* scores) {
  F total[kHeads];
  for (int h = 0; h < kHeads; ++h) total[h] = S::zero();
  for (int g = 0; g < head_dim; g += kGroup) {
    F sum[kHeads];
    for (int h = 0; h < kHeads; ++h) sum[h] = S::zero();
    for (int quad = g / 4; quad < (g + kGroup) / 4; ++quad) {
      const I words = S::load_words(keys + static_cast<std::ptrdiff_t>(quad) * 64);
      const F k[4] = {byte_lanes<0, true>(words), byte_lanes<1, true>(words), byte_lanes<2, true>(words),
                      byte_lanes<3, true>(words)};
      const float* q = queries + quad / 2 * 8 + quad % 2;
      for (int h = 0; h < kHeads; ++h) {
        for (int i = 0; i < 4; ++i) sum[h] = S::fma(S::set1(q[h * head_dim + 2 * i]), k[i], sum[h]);
      }
    }
    const F scale = S::load(key_scales + g / kGroup * kLanes);
    for (int h = 0; h < kHeads; ++h) total[h] = S::fma(scale, sum[h], total[h]);
  }
  for (int h = 0; h < kHeads; ++h) S::store(scores + h * kAttentionBlock, total[h]);
}

// out = out * correction + sum of weights * codes for kHeads heads and 16 dims.
template <class S, int kHeads>
LILY_INLINE void weighted_codes(const std::int8_t* values, int head_dim, int positions, const float* weights,
                                const float* corrections, float* out) {
  F sum[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    sum[h] = S::mul(S::set1(corrections[h]), S::load(out + static_cast<std::ptrdiff_t>(h) * head_dim));
  }
  for (int s = 0; s < positions; s += 4) {
    const I words = S::load_words(values + static_cast<std::ptrdiff_t>(s) * kLanes);
    const F v[4] = {byte_lanes<0, false>(words), byte_lanes<1, false>(words), byte_lanes<2, false>(words),
                    byte_lanes<3, false>(words)};
    for (int h = 0; h < kHeads; ++h) {
      for (int i = 0; i < 4; ++i) {
        sum[h] = S::fma(S::set1(weights[h * kAttentionBlock + s + i]), v[i], sum[h]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) S::store(out + static_cast<std::ptrdiff_t>(h) * head_dim, sum[h]);
}

// weights[s] * scale of position s, 0 behind `count`.
LILY_INLINE void scale_weights(const float* weights, const float* scales, int count, int padded,
                               float* scaled) {
  for (int s = 0; s < padded; s += kLanes) {
    Simd::store(scaled + s, Simd::mul(Simd::load(weights + s), Simd::load(scales + s)));
  }
  for (int s = count; s < padded; ++s) scaled[s] = 0;  // the scale was never written
}

template <class S>
void attend_int8(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
                 const AttentionState& state) {
  const int count = end - begin, padded = whole_lanes(count);
  alignas(64) float scores[kMaximumHeads * kAttentionBlock];
  alignas(64) float scaled[kMaximumHeads * kAttentionBlock];
  float corrections[kMaximumHeads];
  for_head_tiles<kByteHeads>(heads, [&]<int kHeads>(int h) {
    for (int s = 0; s < padded; s += kLanes) {
      scores_of_codes<S, kHeads>(static_cast<const std::uint8_t*>(kv.keys) +
                                     static_cast<std::ptrdiff_t>((begin + s) / kLanes) * head_dim * kLanes,
                                 kv.key_scales + key_scale_index(head_dim, begin + s, 0), head_dim,
                                 queries + static_cast<std::ptrdiff_t>(h) * head_dim,
                                 scores + h * kAttentionBlock + s);
    }
  });
  for (int h = 0; h < heads; ++h) {
    const F sum = softmax_row(scores + h * kAttentionBlock, count, padded, state.maximum[h], corrections[h]);
    state.sum[h] = state.sum[h] * corrections[h] + S::reduce_add(sum);
  }
  for (int g = 0; g < head_dim; g += kGroup) {
    for (int h = 0; h < heads; ++h) {
      scale_weights(scores + h * kAttentionBlock, kv.value_scales + value_scale_index(head_dim, begin, g),
                    count, padded, scaled + h * kAttentionBlock);
    }
    for_head_tiles<kByteHeads>(heads, [&]<int kHeads>(int h) {
      for (int d = g; d < g + kGroup; d += kLanes) {
        weighted_codes<S, kHeads>(
            static_cast<const std::int8_t*>(kv.values) + value_code_index(head_dim, begin, d), head_dim,
            padded, scaled + h * kAttentionBlock, corrections + h,
            state.values + static_cast<std::ptrdiff_t>(h) * head_dim + d);
      }
    });
  }
}

}  // namespace
