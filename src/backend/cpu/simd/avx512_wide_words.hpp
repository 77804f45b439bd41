// Operands of 8-bit tiles made with AVX-512: weighing, unpacking, rounding, scaling. The contract is in
// body/wide_operands.hpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Avx512WideWords {
  template <class Factors>
  static void weigh(const std::byte* affine, std::size_t stride, int groups, int largest_code,
                    Factors* factors, int step, float* scales) {
    const __m512 most = _mm512_set1_ps(static_cast<float>(largest_code));
    // As integers a magnitude that is not a number is the largest.
    __m512i largest = _mm512_setzero_si512();
    for (int g = 0; g < groups; ++g) {
      const __m512 scale = scales_of(affine, stride, g), bias = biases_of(affine, stride, g);
      largest = _mm512_max_epu32(largest, magnitude(bias));
      largest = _mm512_max_epu32(largest, magnitude(_mm512_fmadd_ps(scale, most, bias)));
    }
    const __m512 size = _mm512_castsi512_ps(largest);
    _mm512_storeu_ps(scales, _mm512_mul_ps(size, _mm512_set1_ps(1.0F / 126)));
    const __m512 inverse = inverse_of(size, 126.0F * 256);
    for (int g = 0; g < groups; ++g) {
      Factors& f = factors[g * step];
      _mm512_store_si512(&f.multiplier, twice(_mm512_mul_ps(scales_of(affine, stride, g), inverse)));
      _mm512_store_si512(&f.offset,
                         twice(_mm512_fmadd_ps(biases_of(affine, stride, g), inverse, _mm512_set1_ps(128))));
    }
  }

  // A word of a chunk has four codes of a row. 18 operations for 128 codes.
  template <int kCount, class Factors>
  static inline __attribute__((always_inline)) void unpack(const std::byte* chunks, const Factors& factors,
                                                           std::byte* tile) {
    const __m512i multiplier = _mm512_load_si512(&factors.multiplier),
                  offset = _mm512_load_si512(&factors.offset), low = _mm512_set1_epi16(15);
    const auto value = [&](__m512i code) __attribute__((always_inline)) {
      return _mm512_add_epi16(_mm512_mullo_epi16(code, multiplier), offset);
    };
#pragma GCC unroll 8
    for (int c = 0; c < kCount; ++c) {
      const __m512i words = _mm512_loadu_si512(chunks + c * 64);
      put(value(_mm512_and_si512(words, low)), value(_mm512_and_si512(_mm512_srli_epi16(words, 4), low)),
          tile + c * 128);
      put(value(_mm512_and_si512(_mm512_srli_epi16(words, 8), low)), value(_mm512_srli_epi16(words, 12)),
          tile + c * 128 + 64);
    }
  }
  template <class Factors>
  static void unpack_bytes(const std::byte* high, const std::byte* low, const Factors& factors,
                           std::byte* tile) {
    const __m512i multiplier = _mm512_load_si512(&factors.multiplier),
                  offset = _mm512_load_si512(&factors.offset), mask = _mm512_set1_epi16(15);
    const __m512i a = _mm512_loadu_si512(high), b = _mm512_loadu_si512(low);
    const auto value = [&](int i) __attribute__((always_inline)) {
      const __m128i shift = _mm_cvtsi32_si128(4 * i);
      const __m512i upper = _mm512_and_si512(_mm512_srl_epi16(a, shift), mask),
                    lower = _mm512_and_si512(_mm512_srl_epi16(b, shift), mask);
      const __m512i code = _mm512_or_si512(_mm512_slli_epi16(upper, 4), lower);
      return _mm512_add_epi16(_mm512_mullo_epi16(code, multiplier), offset);
    };
    put(value(0), value(1), tile);
    put(value(2), value(3), tile + 64);
  }

  static float round(const float* x, int columns, std::int8_t* codes) {
    __m512i largest = _mm512_setzero_si512();
    for (int c = 0; c < columns; c += 16)
      largest = _mm512_max_epu32(largest, magnitude(_mm512_loadu_ps(x + c)));
    const __m512 size = _mm512_set1_ps(_mm_cvtss_f32(
        _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(_mm512_reduce_max_epu32(largest))))));
    const __m512 inverse = inverse_of(size, 127);
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15);
    for (int c = 0; c < columns; c += 16) {
      const __m512i code = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + c), inverse));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + c),
                       _mm_shuffle_epi8(_mm512_cvtepi32_epi8(code), order));
    }
    return _mm512_cvtss_f32(_mm512_mul_ps(size, _mm512_set1_ps(1.0F / 127)));
  }

  using Lanes = __m512;
  static inline __attribute__((always_inline)) Lanes load(const float* p) { return _mm512_loadu_ps(p); }
  static inline __attribute__((always_inline)) Lanes add_scaled(const std::byte* sums, Lanes scales,
                                                                float token_scale, const float* before,
                                                                bool first) {
    const auto there = static_cast<__mmask16>(first ? 0 : 0xffff);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sums)),
                           _mm512_mul_ps(scales, _mm512_set1_ps(token_scale)),
                           _mm512_maskz_loadu_ps(there, before));
  }
  template <bool kPastCache>
  static inline __attribute__((always_inline)) void put(float* to, Lanes lanes) {
    kPastCache ? _mm512_stream_ps(to, lanes) : _mm512_storeu_ps(to, lanes);
  }
  template <bool kPastCache>
  static inline __attribute__((always_inline)) void put(float* to, Lanes first, Lanes second) {
    put<kPastCache>(to, first);
    put<kPastCache>(to + 16, second);
  }
  template <bool kPastCache>
  static inline __attribute__((always_inline)) void put(std::uint16_t* to, Lanes lanes) {
    const auto halves = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(lanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
  }
  template <bool kPastCache>
  static inline __attribute__((always_inline)) void put(std::uint16_t* to, Lanes first, Lanes second) {
    const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
    kPastCache ? _mm512_stream_si512(reinterpret_cast<__m512i*>(to), halves)
               : _mm512_storeu_si512(to, halves);
  }
  static void fence() { _mm_sfence(); }

 private:
  static inline __attribute__((always_inline)) __m512 widen(const std::byte* bf16) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bf16));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }
  static inline __attribute__((always_inline)) __m512 scales_of(const std::byte* affine, std::size_t stride,
                                                                int group) {
    return widen(affine + stride * static_cast<std::size_t>(group));
  }
  static inline __attribute__((always_inline)) __m512 biases_of(const std::byte* affine, std::size_t stride,
                                                                int group) {
    return widen(affine + stride * static_cast<std::size_t>(group) + 32);
  }
  static inline __attribute__((always_inline)) __m512i magnitude(__m512 x) {
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
  }
  // limit / size; 0 below 1e-30, where it would overflow.
  static inline __attribute__((always_inline)) __m512 inverse_of(__m512 size, float limit) {
    const __mmask16 enough = _mm512_cmp_ps_mask(size, _mm512_set1_ps(1e-30F), _CMP_GT_OQ);
    return _mm512_maskz_div_ps(enough, _mm512_set1_ps(limit), size);
  }
  static inline __attribute__((always_inline)) __m512i twice(__m512 x) {
    const __m512i rounded = _mm512_cvtps_epi32(x);
    return _mm512_or_si512(_mm512_and_si512(rounded, _mm512_set1_epi32(0xffff)),
                           _mm512_slli_epi32(rounded, 16));
  }
  // The upper bytes of even words and of odd ones, in turn.
  static inline __attribute__((always_inline)) void put(__m512i even, __m512i odd, std::byte* to) {
    const __m512i upper = _mm512_set1_epi16(static_cast<short>(0xff00));
    // a | (b & c)
    _mm512_store_si512(to, _mm512_ternarylogic_epi32(_mm512_srli_epi16(even, 8), odd, upper, 0xf8));
  }
};

}  // namespace
