// Lanes of 16 in compiler vectors: correct everywhere, fast nowhere.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/bf16.hpp"

namespace {

#define LILY_INLINE static inline __attribute__((always_inline))

struct Simd {
  using F = float __attribute__((vector_size(64)));
  using I = std::int32_t __attribute__((vector_size(64)));
  using Codes = I;  // the word of each row holds its 4 codes, lowest byte first
  struct Quad {
    std::int8_t v[4];
  };
  using Dots = I;
  static constexpr bool kDotsNeedWidening = false;
  static constexpr bool kByteDots = false;
  static constexpr int kChunkUnroll = 1;
  static constexpr int kTileBlocks = 1, kTileTokensFast = 1, kTileTokensExact = 1;
  static constexpr int kAttentionTile = 4;  // accumulators of 16 lanes

  LILY_INLINE F zero() { return F{}; }
  LILY_INLINE F set1(float x) { return F{} + x; }
  LILY_INLINE F load(const float* p) {
    F x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  LILY_INLINE void store(float* p, F x) { __builtin_memcpy(p, &x, sizeof x); }
  LILY_INLINE F add(F a, F b) { return a + b; }
  LILY_INLINE F sub(F a, F b) { return a - b; }
  LILY_INLINE F mul(F a, F b) { return a * b; }
  LILY_INLINE F div(F a, F b) { return a / b; }
  LILY_INLINE F fma(F a, F b, F c) { return a * b + c; }
  LILY_INLINE F max(F a, F b) { return a > b ? a : b; }
  LILY_INLINE F min(F a, F b) { return a < b ? a : b; }
  LILY_INLINE F abs(F a) { return a < 0 ? -a : a; }
  LILY_INLINE float reduce_add(F a) {
    float sum = 0;
    for (int i = 0; i < 16; ++i) sum += a[i];
    return sum;
  }
  LILY_INLINE float reduce_max(F a) {
    float best = a[0];
    for (int i = 1; i < 16; ++i) best = a[i] > best ? a[i] : best;
    return best;
  }

  LILY_INLINE F load_bf16(const std::uint16_t* p) {
    F x{};
    for (int i = 0; i < 16; ++i) x[i] = lily::bf16_to_float(p[i]);
    return x;
  }
  LILY_INLINE void store_int16(std::int16_t* p, I x) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int16_t>(x[i]);
  }
  LILY_INLINE void store_int8(std::int8_t* p, I x) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(x[i]);
  }

  LILY_INLINE I izero() { return I{}; }
  LILY_INLINE I iset1(std::int32_t x) { return I{} + x; }
  // Modulo 2^32, as the vector instructions.
  LILY_INLINE I iadd(I a, I b) {
    using Modular = std::uint32_t __attribute__((vector_size(64)));
    return __builtin_bit_cast(I, __builtin_bit_cast(Modular, a) + __builtin_bit_cast(Modular, b));
  }
  LILY_INLINE I isub(I a, I b) { return a - b; }
  template <int kBits>
  LILY_INLINE I shift_left(I a) {
    return a << kBits;
  }
  template <int kBits>
  LILY_INLINE I shift_right(I a) {
    return a >> kBits;
  }
  LILY_INLINE std::int32_t ireduce_add(I a) {
    std::int32_t sum = 0;
    for (int i = 0; i < 16; ++i) sum += a[i];
    return sum;
  }
  LILY_INLINE F to_float(I a) { return __builtin_convertvector(a, F); }
  // Out of range (a NaN or infinite input) gives the smallest integer, as the vector instructions do.
  LILY_INLINE I round(F a) {
    I out{};
    for (int i = 0; i < 16; ++i) {
      const bool fits = a[i] > -2147483648.0F && a[i] < 2147483648.0F;
      out[i] = fits ? static_cast<std::int32_t>(std::nearbyintf(a[i])) : INT32_MIN;
    }
    return out;
  }
  LILY_INLINE F bits_to_float(I a) { return __builtin_bit_cast(F, a); }

  LILY_INLINE I load_words(const void* p) {
    I words;
    __builtin_memcpy(&words, p, sizeof words);
    return words;
  }
  struct Pair {
    std::int16_t v[2];
  };
  using PairDots = I;
  LILY_INLINE Pair load_pair(const std::int16_t* p) { return {{p[0], p[1]}}; }
  LILY_INLINE PairDots pair_dots_zero() { return I{}; }
  LILY_INLINE PairDots dot_pairs(PairDots sum, I words, Pair pair) {
    sum = iadd(sum, ((words << 16) >> 16) * static_cast<std::int32_t>(pair.v[0]));
    return iadd(sum, (words >> 16) * static_cast<std::int32_t>(pair.v[1]));
  }
  LILY_INLINE I join_pairs(PairDots dots) { return dots; }

  LILY_INLINE Codes load_codes(const std::byte* p) {
    Codes c;
    __builtin_memcpy(&c, p, sizeof c);
    return c;
  }
  LILY_INLINE Codes low_nibbles(Codes c) { return c & 0x0f0f0f0f; }
  LILY_INLINE Codes high_nibbles(Codes c) { return (c >> 4) & 0x0f0f0f0f; }
  LILY_INLINE Quad load_quad(const std::int8_t* p) { return {{p[0], p[1], p[2], p[3]}}; }
  LILY_INLINE Dots dot(Dots sum, Codes codes, Quad quad) {
    sum += (codes & 0xff) * static_cast<std::int32_t>(quad.v[0]);
    sum += ((codes >> 8) & 0xff) * static_cast<std::int32_t>(quad.v[1]);
    sum += ((codes >> 16) & 0xff) * static_cast<std::int32_t>(quad.v[2]);
    return sum + ((codes >> 24) & 0xff) * static_cast<std::int32_t>(quad.v[3]);
  }
  LILY_INLINE Dots dots_zero() { return I{}; }
  LILY_INLINE I widen(Dots dots) { return dots; }

  LILY_INLINE void store_chunk_order(std::int8_t* p, I x) {
    constexpr int kOrder[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
    for (int i = 0; i < 16; ++i) p[i] = static_cast<std::int8_t>(x[kOrder[i]]);
  }

  LILY_INLINE std::uint64_t read_stream(const std::byte* p, std::size_t bytes) {
    I sum{};
    for (std::size_t i = 0; i + 64 <= bytes; i += 64) sum ^= load_codes(p + i);
    std::uint64_t words[8], all = 0;
    __builtin_memcpy(words, &sum, sizeof words);
    for (const std::uint64_t word : words) all ^= word;
    return all;
  }
};

}  // namespace
