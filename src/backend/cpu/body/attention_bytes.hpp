// Attention by products of unsigned with signed bytes: exact (two terms for queries and weights) over an
// 8-bit cache, and `fast` (one term) over whole blocks in codes. Four times the rate of fp32, half of it for
// exact.
#pragma once

#include "backend/cpu/body/attention_codes.hpp"
#include "backend/cpu/body/attention_pairs.hpp"
#include "backend/cpu/body/attention_parts.hpp"
#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::ActivationRow;
using lily::cpu::kMaximumQueryColumns;
using lily::cpu::KvCodes;
using lily::cpu::KvView;

// Queries of the heads that share a KV head, quantized like activations.
template <int kTerms>
struct QueryCodes {
  QueryCodes(const float* queries, int columns) {
    quantize(queries, columns, {high, kTerms == 2 ? low : nullptr, scales, sums});
  }
  alignas(64) std::int8_t high[kMaximumQueryColumns];
  alignas(64) std::int8_t low[kTerms == 2 ? kMaximumQueryColumns : 1];
  float scales[kMaximumQueryColumns / kGroup];
  float sums[kMaximumQueryColumns / kGroup];
};

// Scores of queries [first, first + kHeads) against the 16 positions whose codes and scales are given.
template <class S, int kHeads, int kTerms>
LILY_INLINE void byte_scores(const std::uint8_t* keys, const float* key_scales, int head_dim,
                             const QueryCodes<kTerms>& queries, int first, float* scores) {
  const int groups = head_dim / kGroup;
  const std::int8_t* high = queries.high + static_cast<std::ptrdiff_t>(first) * head_dim;
  const std::int8_t* low = queries.low + (kTerms == 2 ? static_cast<std::ptrdiff_t>(first) * head_dim : 0);
  F total[kHeads];
  for (int h = 0; h < kHeads; ++h) total[h] = S::zero();
  for (int g = 0; g < groups; ++g) {
    I dots[kTerms][kHeads];
    for (int h = 0; h < kHeads; ++h) {
      for (int t = 0; t < kTerms; ++t) dots[t][h] = S::izero();
    }
    for (int quad = g * kGroup; quad < (g + 1) * kGroup; quad += 4) {
      const std::uint8_t* key = keys + static_cast<std::ptrdiff_t>(quad) * kLanes;
      prefetch_behind(key);
      const I codes = S::load_words(key);
#pragma GCC unroll 8
      for (int h = 0; h < kHeads; ++h) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(h) * head_dim + quad;
        dots[0][h] = S::dot(dots[0][h], codes, S::load_quad(high + at));
        if constexpr (kTerms == 2) dots[1][h] = S::dot(dots[1][h], codes, S::load_quad(low + at));
      }
    }
    const F scale = S::load(key_scales + g * kLanes);
    for (int h = 0; h < kHeads; ++h) {
      const std::ptrdiff_t group = static_cast<std::ptrdiff_t>(first + h) * groups + g;
      I dot = dots[0][h];
      if constexpr (kTerms == 2) dot = S::iadd(S::template shift_left<8>(dot), dots[1][h]);
      // The codes are 128 too large.
      const F score =
          S::fma(S::to_float(dot), S::set1(queries.scales[group]), S::set1(-128 * queries.sums[group]));
      total[h] = S::fma(score, scale, total[h]);
    }
  }
  for (int h = 0; h < kHeads; ++h) S::store(scores + h * kAttentionBlock, total[h]);
}

template <class S, int kTerms>
LILY_INLINE void all_byte_scores(const std::uint8_t* keys, const float* key_scales, int head_dim,
                                 const QueryCodes<kTerms>& queries, int heads, int padded, float* scores) {
  for_head_tiles<kByteHeads>(heads, [&]<int kHeads>(int h) {
    for (int s = 0; s < padded; s += kLanes) {
      byte_scores<S, kHeads, kTerms>(keys + static_cast<std::ptrdiff_t>(s) * head_dim,
                                     key_scales + static_cast<std::ptrdiff_t>(s) * (head_dim / kGroup),
                                     head_dim, queries, h, scores + h * kAttentionBlock + s);
    }
  });
}

// One head's weights of a block as unsigned codes: weight ~ scale * code, or scale * (256 high + low).
template <int kTerms>
struct WeightCodes {
  alignas(64) std::int8_t high[kMaximumHeads * kAttentionBlock];
  alignas(64) std::int8_t low[kTerms == 2 ? kMaximumHeads * kAttentionBlock : 1];
  float scales[kMaximumHeads];

  // Returns the sum of the codes. A weight that is not finite makes the scale NaN.
  std::int32_t encode(int head, const float* weights, int padded) {
    constexpr float kLimit = kTerms == 2 ? 65535 : 255;
    F largest = Simd::zero(), poison = Simd::zero();
    for (int s = 0; s < padded; s += kLanes) {
      const F weight = Simd::load(weights + s);
      largest = Simd::max(largest, weight);
      poison = Simd::fma(weight, Simd::zero(), poison);
    }
    const float maximum = Simd::reduce_max(largest);
    const F inverse = Simd::set1(maximum > 1e-30F ? kLimit / maximum : 0.0F);
    scales[head] = maximum / kLimit + Simd::reduce_add(poison);
    I total = Simd::izero();
    for (int s = 0; s < padded; s += kLanes) {
      const I code = Simd::round(Simd::mul(Simd::load(weights + s), inverse));
      total = Simd::iadd(total, code);
      const int at = head * kAttentionBlock + s;
      if constexpr (kTerms == 2) {
        Simd::store_int8(high + at, Simd::shift_right<8>(code));
        Simd::store_int8(low + at, code);
      } else {
        Simd::store_int8(high + at, code);
      }
    }
    return Simd::ireduce_add(total);
  }
};

// out = out * correction + scale * value_scale * sum of weight codes * value codes for kHeads heads from
// `first` on and kChunks x 16 dims. `value_scales` may be null (1).
template <class S, int kHeads, int kChunks, int kTerms>
LILY_INLINE void byte_values(const std::int8_t* values, int head_dim, int positions,
                             const WeightCodes<kTerms>& weights, int first, const float* value_scales,
                             const float* corrections, float* out) {
  const std::int8_t* high = weights.high + static_cast<std::ptrdiff_t>(first) * kAttentionBlock;
  const std::int8_t* low =
      weights.low + (kTerms == 2 ? static_cast<std::ptrdiff_t>(first) * kAttentionBlock : 0);
  I sum[kTerms][kHeads][kChunks];
  for (int t = 0; t < kTerms; ++t) {
    for (int h = 0; h < kHeads; ++h) {
      for (int c = 0; c < kChunks; ++c) sum[t][h][c] = S::izero();
    }
  }
  for (int s = 0; s < positions; s += 4) {
    I codes[kChunks];
    for (int c = 0; c < kChunks; ++c) {
      const std::int8_t* value = values + (static_cast<std::ptrdiff_t>(c) * kAttentionBlock + s) * kLanes;
      prefetch_behind(value);
      codes[c] = S::load_words(value);
    }
#pragma GCC unroll 8
    for (int h = 0; h < kHeads; ++h) {
      const auto high_quad = S::load_quad(high + h * kAttentionBlock + s);
      for (int c = 0; c < kChunks; ++c) sum[0][h][c] = S::dot_signed(sum[0][h][c], high_quad, codes[c]);
      if constexpr (kTerms == 2) {
        const auto low_quad = S::load_quad(low + h * kAttentionBlock + s);
        for (int c = 0; c < kChunks; ++c) sum[1][h][c] = S::dot_signed(sum[1][h][c], low_quad, codes[c]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    const F correction = S::set1(corrections[h]);
    for (int c = 0; c < kChunks; ++c) {
      F scale = S::set1(weights.scales[first + h]);
      if (value_scales != nullptr) scale = S::mul(scale, S::load(value_scales + c * kLanes));
      I dot = sum[0][h][c];
      // 256 positions * 65,535 * 127 still fits 32 bits.
      if constexpr (kTerms == 2) dot = S::iadd(S::template shift_left<8>(dot), sum[1][h][c]);
      float* to = out + static_cast<std::ptrdiff_t>(h) * head_dim + c * kLanes;
      S::store(to, S::fma(S::to_float(dot), scale, S::mul(correction, S::load(to))));
    }
  }
}

template <class S>
LILY_INLINE void attend_bytes_in(const KvView& kv, int head_dim, const float* queries, int heads, int begin,
                                 int end, const AttentionState& state) {
  const int count = end - begin, padded = whole_lanes(count);
  alignas(64) float scores[kMaximumHeads * kAttentionBlock];
  alignas(64) float scaled[kAttentionBlock];
  float corrections[kMaximumHeads];
  const QueryCodes<2> codes(queries, heads * head_dim);
  all_byte_scores<S, 2>(
      static_cast<const std::uint8_t*>(kv.keys) + static_cast<std::ptrdiff_t>(begin) * head_dim,
      kv.key_scales + key_scale_index(head_dim, begin, 0), head_dim, codes, heads, padded, scores);
  for (int h = 0; h < heads; ++h) {
    const F sum = softmax_row(scores + h * kAttentionBlock, count, padded, state.maximum[h], corrections[h]);
    state.sum[h] = state.sum[h] * corrections[h] + S::reduce_add(sum);
  }
  WeightCodes<2> weights;
  for (int g = 0; g < head_dim; g += kGroup) {
    for (int h = 0; h < heads; ++h) {
      scale_weights(scores + h * kAttentionBlock, kv.value_scales + value_scale_index(head_dim, begin, g),
                    count, padded, scaled);
      weights.encode(h, scaled, padded);
    }
    for_head_tiles<kByteHeads>(heads, [&]<int kHeads>(int h) {
      for (int d = g; d < g + kGroup; d += kLanes) {
        byte_values<S, kHeads, 1, 2>(
            static_cast<const std::int8_t*>(kv.values) + value_code_index(head_dim, begin, d), head_dim,
            padded, weights, h, nullptr, corrections + h,
            state.values + static_cast<std::ptrdiff_t>(h) * head_dim + d);
      }
    });
  }
}

// Known dims make the addresses of all heads' codes one register and constants (5 % of attention).
constexpr int kUsualHeadDim = 256;

template <class S>
void attend_bytes(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
                  const AttentionState& state) {
  if (head_dim == kUsualHeadDim) {
    attend_bytes_in<S>(kv, kUsualHeadDim, queries, heads, begin, end, state);
  } else {
    attend_bytes_in<S>(kv, head_dim, queries, heads, begin, end, state);
  }
}

// Four vectors of values in -127 .. 127 as the bytes of 16 words, each 128 larger.
LILY_INLINE I interleave(const F (&x)[4]) {
  const I low = Simd::iadd(Simd::round(x[0]), Simd::shift_left<8>(Simd::round(x[1])));
  const I high = Simd::iadd(Simd::shift_left<16>(Simd::round(x[2])), Simd::shift_left<24>(Simd::round(x[3])));
  return Simd::iadd(Simd::iadd(low, high), Simd::iset1(static_cast<std::int32_t>(0x80808080U)));
}

// Scale and its inverse for values of up to `largest`; poison is 0, or NaN where a value is not finite.
struct Scaling {
  Scaling(F largest, F poison)
      : scale(Simd::fma(largest, Simd::set1(1.0F / 127), poison)),
        inverse(Simd::div(Simd::set1(127), Simd::max(largest, Simd::set1(1e-30F)))) {}
  F scale, inverse;
};

// Keys of a 16-bit cache keep the scales of their positions, times what their largest code is of 127.
template <class S>
void encode_keys(const KvView& kv, int head_dim, int begin, const KvCodes& codes) {
  for (int s = 0; s < kAttentionBlock; s += kLanes) {
    const std::int16_t* from = static_cast<const std::int16_t*>(kv.keys) + key_index(head_dim, begin + s, 0);
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(s) * head_dim;
    for (int g = 0; g < head_dim; g += kGroup) {
      F largest = S::zero();
      for (int d = g; d < g + kGroup; d += 2) {
        const I pairs = S::load_words(from + static_cast<std::ptrdiff_t>(d) * kKeyStrip);
        largest = S::max(largest, S::max(S::abs(pair_lanes<0>(pairs)), S::abs(pair_lanes<1>(pairs))));
      }
      const Scaling scaling(largest, S::zero());
      const F scale = S::load(kv.key_scales + key_scale_index(head_dim, begin + s, g));
      S::store(codes.key_scales + at / kGroup + g / kGroup * kLanes, S::mul(scale, scaling.scale));
      for (int d = g; d < g + kGroup; d += 8) {
        F key[8];
        for (int i = 0; i < 8; i += 2) {
          const I pairs = S::load_words(from + static_cast<std::ptrdiff_t>(d + i) * kKeyStrip);
          key[i] = S::mul(pair_lanes<0>(pairs), scaling.inverse);
          key[i + 1] = S::mul(pair_lanes<1>(pairs), scaling.inverse);
        }
        std::uint8_t* to = codes.keys + at + static_cast<std::ptrdiff_t>(d) * kLanes;
        S::store_words(to, interleave({key[0], key[2], key[4], key[6]}));
        S::store_words(to + 4 * kLanes, interleave({key[1], key[3], key[5], key[7]}));
      }
    }
  }
}

// load(quad, out): 16 dims of four positions.
template <class S, class Load>
LILY_INLINE void encode_values(const Load& load, std::int8_t* codes, float* scales) {
  F largest[4] = {S::zero(), S::zero(), S::zero(), S::zero()}, poison = S::zero();
  for (int s = 0; s < kAttentionBlock; s += 4) {
    F value[4];
    load(s, value);
    for (int i = 0; i < 4; ++i) {
      largest[i] = S::max(largest[i], S::abs(value[i]));
      poison = S::fma(value[i], S::zero(), poison);
    }
  }
  const Scaling scaling(S::max(S::max(largest[0], largest[1]), S::max(largest[2], largest[3])), poison);
  S::store(scales, scaling.scale);
  for (int s = 0; s < kAttentionBlock; s += 4) {
    F value[4];
    load(s, value);
    for (F& v : value) v = S::mul(v, scaling.inverse);
    S::store_words(codes + static_cast<std::ptrdiff_t>(s) * kLanes, S::flip_signs(interleave(value)));
  }
}

template <class S>
KvCodes encode_block(const KvView& kv, int head_dim, int begin, const KvCodes& room) {
  KvCodes codes = room;
  if (kv.int8) {
    codes.keys = static_cast<std::uint8_t*>(kv.keys) + static_cast<std::ptrdiff_t>(begin) * head_dim;
    codes.key_scales = kv.key_scales + key_scale_index(head_dim, begin, 0);
  } else {
    encode_keys<S>(kv, head_dim, begin, codes);
  }
  for (int d = 0; d < head_dim; d += kLanes) {
    std::int8_t* to = codes.values + static_cast<std::ptrdiff_t>(d) * kAttentionBlock;
    const float* scales = kv.value_scales + value_scale_index(head_dim, begin, d);
    if (kv.int8) {
      const std::int8_t* from =
          static_cast<const std::int8_t*>(kv.values) + value_code_index(head_dim, begin, d);
      const auto load = [&](int s, F(&out)[4]) {
        const I words = S::load_words(from + static_cast<std::ptrdiff_t>(s) * kLanes);
        out[0] = S::mul(byte_lanes<0, false>(words), S::set1(scales[s]));
        out[1] = S::mul(byte_lanes<1, false>(words), S::set1(scales[s + 1]));
        out[2] = S::mul(byte_lanes<2, false>(words), S::set1(scales[s + 2]));
        out[3] = S::mul(byte_lanes<3, false>(words), S::set1(scales[s + 3]));
      };
      encode_values<S>(load, to, codes.value_scales + d);
    } else {
      const std::int16_t* from =
          static_cast<const std::int16_t*>(kv.values) + value_index(head_dim, begin, d);
      const auto load = [&](int s, F(&out)[4]) {
        for (int i = 0; i < 4; i += 2) {
          const I pairs = S::load_words(from + static_cast<std::ptrdiff_t>(s + i) * kValueStrip);
          out[i] = S::mul(pair_lanes<0>(pairs), S::set1(scales[s + i]));
          out[i + 1] = S::mul(pair_lanes<1>(pairs), S::set1(scales[s + i + 1]));
        }
      };
      encode_values<S>(load, to, codes.value_scales + d);
    }
  }
  return codes;
}

template <class S>
LILY_INLINE void attend_codes_in(const KvCodes& kv, int head_dim, const float* queries, int heads,
                                 const AttentionState& state) {
  alignas(64) float scores[kMaximumHeads * kAttentionBlock];
  float corrections[kMaximumHeads];
  const QueryCodes<1> codes(queries, heads * head_dim);
  all_byte_scores<S, 1>(kv.keys, kv.key_scales, head_dim, codes, heads, kAttentionBlock, scores);
  WeightCodes<1> weights;
  for (int h = 0; h < heads; ++h) {
    float* row = scores + h * kAttentionBlock;
    softmax_row(row, kAttentionBlock, kAttentionBlock, state.maximum[h], corrections[h]);
    // The sum of the rounded weights, so that what rounding takes from small weights is not lost but spread.
    const std::int32_t sum = weights.encode(h, row, kAttentionBlock);
    state.sum[h] = state.sum[h] * corrections[h] + weights.scales[h] * static_cast<float>(sum);
  }
  for_head_tiles<kByteHeads>(heads, [&]<int kHeads>(int h) {
    constexpr int kChunks = 2;
    for (int d = 0; d < head_dim; d += kChunks * kLanes) {
      byte_values<S, kHeads, kChunks, 1>(
          kv.values + static_cast<std::ptrdiff_t>(d) * kAttentionBlock, head_dim, kAttentionBlock, weights, h,
          kv.value_scales + d, corrections + h, state.values + static_cast<std::ptrdiff_t>(h) * head_dim + d);
    }
  });
}

template <class S>
void attend_codes(const KvCodes& kv, int head_dim, const float* queries, int heads,
                  const AttentionState& state) {
  if (head_dim == kUsualHeadDim) {
    attend_codes_in<S>(kv, kUsualHeadDim, queries, heads, state);
  } else {
    attend_codes_in<S>(kv, head_dim, queries, heads, state);
  }
}

}  // namespace
