// Lanes of 16 on AVX-512 with VNNI: one register each.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

#define LILY_INLINE static inline __attribute__((always_inline))

struct Simd {
  using F = __m512;       // 16 floats
  using I = __m512i;      // 16 int32
  using Codes = __m512i;  // 16 rows x 4 codes, bytes
  using Quad = __m512i;   // 4 activation codes, repeated for each row
  using Dots = __m512i;   // sums of products within a group
  static constexpr bool kDotsNeedWidening = false;
  static constexpr bool kByteDots = true;  // dot takes codes up to 255
  // Register tiles: blocks of 16 rows x tokens, for one and for two activation terms. 2 x 6: 12 integer and
  // 12 float accumulators, 2 code registers and a broadcast fit the 32 registers.
  static constexpr int kChunkUnroll = 8;
  static constexpr int kTileBlocks = 2, kTileTokensFast = 6, kTileTokensExact = 3;
  static constexpr int kAttentionTile = 16;  // accumulators of 16 lanes

  LILY_INLINE F zero() { return _mm512_setzero_ps(); }
  LILY_INLINE F set1(float x) { return _mm512_set1_ps(x); }
  LILY_INLINE F load(const float* p) { return _mm512_loadu_ps(p); }
  LILY_INLINE void store(float* p, F x) { _mm512_storeu_ps(p, x); }
  LILY_INLINE void store_past_cache(float* p, F x) { _mm512_stream_ps(p, x); }
  LILY_INLINE void fence() { _mm_sfence(); }
  LILY_INLINE F add(F a, F b) { return _mm512_add_ps(a, b); }
  LILY_INLINE F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  LILY_INLINE F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  LILY_INLINE F div(F a, F b) { return _mm512_div_ps(a, b); }
  LILY_INLINE F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  LILY_INLINE F max(F a, F b) { return _mm512_max_ps(a, b); }
  LILY_INLINE F min(F a, F b) { return _mm512_min_ps(a, b); }
  LILY_INLINE F abs(F a) { return _mm512_abs_ps(a); }
  LILY_INLINE float reduce_add(F a) { return _mm512_reduce_add_ps(a); }
  LILY_INLINE float reduce_max(F a) { return _mm512_reduce_max_ps(a); }

  LILY_INLINE F load_bf16(const std::uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
  // The lowest half of each, the lowest byte of each.
  LILY_INLINE void store_int16(std::int16_t* p, I x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x));
  }
  LILY_INLINE void store_int8(std::int8_t* p, I x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
  }

  LILY_INLINE I izero() { return _mm512_setzero_si512(); }
  LILY_INLINE I iset1(std::int32_t x) { return _mm512_set1_epi32(x); }
  LILY_INLINE I iadd(I a, I b) { return _mm512_add_epi32(a, b); }
  LILY_INLINE I isub(I a, I b) { return _mm512_sub_epi32(a, b); }
  template <int kBits>
  LILY_INLINE I shift_left(I a) {
    return _mm512_slli_epi32(a, kBits);
  }
  template <int kBits>
  LILY_INLINE I shift_right(I a) {
    return _mm512_srai_epi32(a, kBits);
  }
  LILY_INLINE std::int32_t ireduce_add(I a) { return _mm512_reduce_add_epi32(a); }
  LILY_INLINE F to_float(I a) { return _mm512_cvtepi32_ps(a); }
  LILY_INLINE I round(F a) { return _mm512_cvtps_epi32(a); }  // to nearest, ties to even
  LILY_INLINE F bits_to_float(I a) { return _mm512_castsi512_ps(a); }

  LILY_INLINE I load_words(const void* p) { return _mm512_loadu_si512(p); }
  LILY_INLINE void store_words(void* p, I x) { _mm512_storeu_si512(p, x); }
  LILY_INLINE I flip_signs(I bytes) { return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)); }
  // Four unsigned codes, the same for each lane, times signed bytes.
  LILY_INLINE I dot_signed(I sum, Quad codes, I bytes) { return _mm512_dpbusd_epi32(sum, codes, bytes); }

  // Two signed 16-bit codes of each lane times two that are the same for all.
  using Pair = __m512i;
  using PairDots = __m512i;
  LILY_INLINE Pair load_pair(const std::int16_t* p) {
    std::int32_t two;
    __builtin_memcpy(&two, p, 4);
    return _mm512_set1_epi32(two);
  }
  LILY_INLINE PairDots pair_dots_zero() { return _mm512_setzero_si512(); }
  LILY_INLINE PairDots dot_pairs(PairDots sum, I words, Pair pair) {
    return _mm512_dpwssd_epi32(sum, words, pair);
  }
  LILY_INLINE I join_pairs(PairDots dots) { return dots; }

  LILY_INLINE Codes load_codes(const std::byte* p) { return _mm512_loadu_si512(p); }
  LILY_INLINE Codes low_nibbles(Codes c) { return _mm512_and_si512(c, _mm512_set1_epi8(15)); }
  LILY_INLINE Codes high_nibbles(Codes c) {
    return _mm512_and_si512(_mm512_srli_epi16(c, 4), _mm512_set1_epi8(15));
  }
  // 8-bit codes from nibbles in two planes.
  LILY_INLINE Codes join_low_nibbles(Codes high, Codes low) {
    return select_bits(_mm512_set1_epi8(15), low, _mm512_slli_epi16(high, 4));
  }
  LILY_INLINE Codes join_high_nibbles(Codes high, Codes low) {
    return select_bits(_mm512_set1_epi8(15), _mm512_srli_epi16(low, 4), high);
  }
  LILY_INLINE I select_bits(I mask, I set, I clear) {
    return _mm512_ternarylogic_epi32(mask, set, clear, 0xca);
  }
  LILY_INLINE Quad load_quad(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return _mm512_set1_epi32(four);
  }
  LILY_INLINE Dots dot(Dots sum, Codes codes, Quad quad) { return _mm512_dpbusd_epi32(sum, codes, quad); }
  LILY_INLINE Dots dots_zero() { return _mm512_setzero_si512(); }
  LILY_INLINE I widen(Dots dots) { return dots; }

  // Stores 16 values in -128 .. 127 in chunk order: columns 0,2,4,6,1,3,5,7 of each 8.
  LILY_INLINE void store_chunk_order(std::int8_t* p, I x) {
    const __m128i order = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_shuffle_epi8(_mm512_cvtepi32_epi8(x), order));
  }

  LILY_INLINE std::uint64_t read_stream(const std::byte* p, std::size_t bytes) {
    __m512i a = izero(), b = izero(), c = izero(), d = izero();
    for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
      a = _mm512_xor_si512(a, load_codes(p + i));
      b = _mm512_xor_si512(b, load_codes(p + i + 64));
      c = _mm512_xor_si512(c, load_codes(p + i + 128));
      d = _mm512_xor_si512(d, load_codes(p + i + 192));
    }
    return static_cast<std::uint64_t>(
        _mm512_reduce_add_epi64(_mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d))));
  }
};

}  // namespace
