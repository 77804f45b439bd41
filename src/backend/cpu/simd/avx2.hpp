// Lanes of 16 on AVX2 with FMA: two registers each.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

#define LILY_INLINE static inline __attribute__((always_inline))

struct Simd {
  struct F {
    __m256 a, b;
  };
  struct I {
    __m256i a, b;
  };
  using Codes = I;
  using Quad = __m256i;
  // Pairs of products in 16 bits: at most 15 * 128 * 2 each, so eight fit before widening.
  using Dots = I;
  static constexpr bool kDotsNeedWidening = true;
  static constexpr bool kByteDots = false;
  // One core of a Zen 4, 16 tokens: 217 and 103 GOP/s fast and exact; with 3 and 1 tokens and all eight
  // chunks unrolled 180 and 93, because more values then move between the 16 registers and memory.
  static constexpr int kChunkUnroll = 4;
  static constexpr int kTileBlocks = 1, kTileTokensFast = 4, kTileTokensExact = 2;
  static constexpr int kAttentionTile = 4;  // accumulators of 16 lanes

  LILY_INLINE F zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  LILY_INLINE F set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  LILY_INLINE F load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  LILY_INLINE void store_past_cache(float* p, F x) {
    _mm256_stream_ps(p, x.a);
    _mm256_stream_ps(p + 8, x.b);
  }
  LILY_INLINE void fence() { _mm_sfence(); }
  LILY_INLINE void store(float* p, F x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
  }
  LILY_INLINE F add(F x, F y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
  LILY_INLINE F sub(F x, F y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
  LILY_INLINE F mul(F x, F y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
  LILY_INLINE F div(F x, F y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
  LILY_INLINE F fma(F x, F y, F z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  LILY_INLINE F max(F x, F y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
  LILY_INLINE F min(F x, F y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
  LILY_INLINE F abs(F x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
  }
  LILY_INLINE float reduce_add(F x) {
    const __m256 s = _mm256_add_ps(x.a, x.b);
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_movehdup_ps(t)));
  }
  LILY_INLINE float reduce_max(F x) {
    const __m256 s = _mm256_max_ps(x.a, x.b);
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(t, _mm_movehdup_ps(t)));
  }

  LILY_INLINE __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  LILY_INLINE __m256 bf16_to_float(const std::uint16_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
  }
  LILY_INLINE F load_bf16(const std::uint16_t* p) { return {bf16_to_float(p), bf16_to_float(p + 8)}; }
  // 16 int32 in the range of int16, in order.
  LILY_INLINE __m256i narrow_once(I x) {
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  }
  LILY_INLINE void store_int16(std::int16_t* p, I x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_once(x));
  }
  // 16 int32 in -128 .. 127 to 16 bytes in order.
  LILY_INLINE __m128i narrow(I x) {
    const __m256i words = narrow_once(x);
    return _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  }
  LILY_INLINE void store_int8(std::int8_t* p, I x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow(x));
  }

  LILY_INLINE I izero() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
  LILY_INLINE I iset1(std::int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
  LILY_INLINE I iadd(I x, I y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
  LILY_INLINE I isub(I x, I y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
  template <int kBits>
  LILY_INLINE I shift_left(I x) {
    return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
  }
  template <int kBits>
  LILY_INLINE I shift_right(I x) {
    return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
  }
  LILY_INLINE std::int32_t ireduce_add(I x) {
    const __m256i s = _mm256_add_epi32(x.a, x.b);
    __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0x4e));
    t = _mm_add_epi32(t, _mm_shuffle_epi32(t, 0xb1));
    return _mm_cvtsi128_si32(t);
  }
  LILY_INLINE F to_float(I x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
  LILY_INLINE I round(F x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
  LILY_INLINE F bits_to_float(I x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }

  LILY_INLINE __m256i load256(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  LILY_INLINE I load_words(const void* p) {
    const auto* bytes = static_cast<const std::byte*>(p);
    return {load256(bytes), load256(bytes + 32)};
  }
  using Pair = __m256i;
  using PairDots = I;
  LILY_INLINE Pair load_pair(const std::int16_t* p) {
    std::int32_t two;
    __builtin_memcpy(&two, p, 4);
    return _mm256_set1_epi32(two);
  }
  LILY_INLINE PairDots pair_dots_zero() { return izero(); }
  LILY_INLINE PairDots dot_pairs(PairDots sum, I words, Pair pair) {
    return {_mm256_add_epi32(sum.a, _mm256_madd_epi16(words.a, pair)),
            _mm256_add_epi32(sum.b, _mm256_madd_epi16(words.b, pair))};
  }
  LILY_INLINE I join_pairs(PairDots dots) { return dots; }

  LILY_INLINE Codes load_codes(const std::byte* p) { return {load256(p), load256(p + 32)}; }
  LILY_INLINE Codes low_nibbles(Codes c) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(c.a, mask), _mm256_and_si256(c.b, mask)};
  }
  LILY_INLINE Codes high_nibbles(Codes c) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(_mm256_srli_epi16(c.a, 4), mask),
            _mm256_and_si256(_mm256_srli_epi16(c.b, 4), mask)};
  }
  LILY_INLINE Quad load_quad(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm256_set1_epi32(four);
  }
  LILY_INLINE Dots dot(Dots sum, Codes codes, Quad quad) {
    return {_mm256_add_epi16(sum.a, _mm256_maddubs_epi16(codes.a, quad)),
            _mm256_add_epi16(sum.b, _mm256_maddubs_epi16(codes.b, quad))};
  }
  LILY_INLINE Dots dots_zero() { return izero(); }
  LILY_INLINE I widen(Dots dots) {
    const __m256i ones = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(dots.a, ones), _mm256_madd_epi16(dots.b, ones)};
  }

  LILY_INLINE void store_chunk_order(std::int8_t* p, I x) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_shuffle_epi8(narrow(x), order));
  }

  LILY_INLINE std::uint64_t read_stream(const std::byte* p, std::size_t bytes) {
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    for (std::size_t i = 0; i + 128 <= bytes; i += 128) {
      a = _mm256_xor_si256(a, load256(p + i));
      b = _mm256_xor_si256(b, load256(p + i + 32));
      c = _mm256_xor_si256(c, load256(p + i + 64));
      d = _mm256_xor_si256(d, load256(p + i + 96));
    }
    a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
    const __m128i t = _mm_xor_si128(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    return static_cast<std::uint64_t>(_mm_cvtsi128_si64(t) ^ _mm_extract_epi64(t, 1));
  }
};

}  // namespace
