// Lanes of 16 on NEON with the dot product extension: four registers each.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace {

#define LILY_INLINE static inline __attribute__((always_inline))

// Applies an operation to the four registers.
#define LILY_FOUR(op) \
  { op(0), op(1), op(2), op(3) }

struct Simd {
  struct F {
    float32x4_t v[4];
  };
  struct I {
    int32x4_t v[4];
  };
  struct Codes {
    uint8x16_t v[4];
  };
  using Quad = int8x16_t;
  using Dots = I;
  static constexpr bool kDotsNeedWidening = false;
  static constexpr bool kByteDots = false;
  static constexpr int kChunkUnroll = 8;
  static constexpr int kTileBlocks = 1, kTileTokensFast = 3, kTileTokensExact = 1;
  static constexpr int kAttentionTile = 4;  // accumulators of 16 lanes

  LILY_INLINE F zero() { return set1(0); }
  LILY_INLINE F set1(float x) {
    const float32x4_t v = vdupq_n_f32(x);
    return {{v, v, v, v}};
  }
  LILY_INLINE F load(const float* p) {
    return {{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
  }
  LILY_INLINE void store(float* p, F x) {
    for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, x.v[i]);
  }
#define LILY_OP(i) vaddq_f32(a.v[i], b.v[i])
  LILY_INLINE F add(F a, F b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vsubq_f32(a.v[i], b.v[i])
  LILY_INLINE F sub(F a, F b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vmulq_f32(a.v[i], b.v[i])
  LILY_INLINE F mul(F a, F b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vdivq_f32(a.v[i], b.v[i])
  LILY_INLINE F div(F a, F b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vfmaq_f32(c.v[i], a.v[i], b.v[i])
  LILY_INLINE F fma(F a, F b, F c) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vmaxq_f32(a.v[i], b.v[i])
  LILY_INLINE F max(F a, F b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vminq_f32(a.v[i], b.v[i])
  LILY_INLINE F min(F a, F b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vabsq_f32(a.v[i])
  LILY_INLINE F abs(F a) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
  LILY_INLINE float reduce_add(F a) {
    return vaddvq_f32(vaddq_f32(vaddq_f32(a.v[0], a.v[1]), vaddq_f32(a.v[2], a.v[3])));
  }
  LILY_INLINE float reduce_max(F a) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(a.v[0], a.v[1]), vmaxq_f32(a.v[2], a.v[3])));
  }

#define LILY_OP(i) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16))
  LILY_INLINE F load_bf16(const std::uint16_t* p) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
  LILY_INLINE void store_int16(std::int16_t* p, I x) {
    for (int i = 0; i < 4; ++i) vst1_s16(p + 4 * i, vmovn_s32(x.v[i]));
  }
  LILY_INLINE int8x16_t narrow(I x) {
    const int16x8_t low = vcombine_s16(vmovn_s32(x.v[0]), vmovn_s32(x.v[1]));
    const int16x8_t high = vcombine_s16(vmovn_s32(x.v[2]), vmovn_s32(x.v[3]));
    return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
  }
  LILY_INLINE void store_int8(std::int8_t* p, I x) { vst1q_s8(p, narrow(x)); }

  LILY_INLINE I izero() { return iset1(0); }
  LILY_INLINE I iset1(std::int32_t x) {
    const int32x4_t v = vdupq_n_s32(x);
    return {{v, v, v, v}};
  }
#define LILY_OP(i) vaddq_s32(a.v[i], b.v[i])
  LILY_INLINE I iadd(I a, I b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vsubq_s32(a.v[i], b.v[i])
  LILY_INLINE I isub(I a, I b) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vshlq_n_s32(a.v[i], kBits)
  template <int kBits>
  LILY_INLINE I shift_left(I a) {
    return {LILY_FOUR(LILY_OP)};
  }
#undef LILY_OP
#define LILY_OP(i) vshrq_n_s32(a.v[i], kBits)
  template <int kBits>
  LILY_INLINE I shift_right(I a) {
    return {LILY_FOUR(LILY_OP)};
  }
#undef LILY_OP
  LILY_INLINE std::int32_t ireduce_add(I a) {
    return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[1]), vaddq_s32(a.v[2], a.v[3])));
  }
#define LILY_OP(i) vcvtq_f32_s32(a.v[i])
  LILY_INLINE F to_float(I a) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vcvtnq_s32_f32(a.v[i])
  LILY_INLINE I round(F a) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vreinterpretq_f32_s32(a.v[i])
  LILY_INLINE F bits_to_float(I a) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP

  LILY_INLINE const std::uint8_t* bytes_of(const std::byte* p) {
    return reinterpret_cast<const std::uint8_t*>(p);
  }
#define LILY_OP(i) vreinterpretq_s32_u8(vld1q_u8(static_cast<const std::uint8_t*>(p) + 16 * i))
  LILY_INLINE I load_words(const void* p) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
  // Sums of both codes of a lane stay apart until the end: two instructions for eight products.
  using Pair = int16x8_t;
  struct PairDots {
    int32x4_t v[8];
  };
  LILY_INLINE Pair load_pair(const std::int16_t* p) {
    std::int32_t two;
    __builtin_memcpy(&two, p, 4);
    return vreinterpretq_s16_s32(vdupq_n_s32(two));
  }
  LILY_INLINE PairDots pair_dots_zero() {
    const int32x4_t v = vdupq_n_s32(0);
    return {{v, v, v, v, v, v, v, v}};
  }
  LILY_INLINE PairDots dot_pairs(PairDots sum, I words, Pair pair) {
    for (int i = 0; i < 4; ++i) {
      const int16x8_t codes = vreinterpretq_s16_s32(words.v[i]);
      sum.v[2 * i] = vmlal_s16(sum.v[2 * i], vget_low_s16(codes), vget_low_s16(pair));
      sum.v[2 * i + 1] = vmlal_high_s16(sum.v[2 * i + 1], codes, pair);
    }
    return sum;
  }
#define LILY_OP(i) vpaddq_s32(dots.v[2 * i], dots.v[2 * i + 1])
  LILY_INLINE I join_pairs(PairDots dots) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vld1q_u8(bytes_of(p) + 16 * i)
  LILY_INLINE Codes load_codes(const std::byte* p) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vandq_u8(c.v[i], vdupq_n_u8(15))
  LILY_INLINE Codes low_nibbles(Codes c) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
#define LILY_OP(i) vshrq_n_u8(c.v[i], 4)
  LILY_INLINE Codes high_nibbles(Codes c) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
  LILY_INLINE Quad load_quad(const std::int8_t* p) {
    std::int32_t four;
    __builtin_memcpy(&four, p, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(four));
  }
  // Codes are at most 15, so reading them as signed is exact.
#define LILY_OP(i) vdotq_s32(sum.v[i], vreinterpretq_s8_u8(codes.v[i]), quad)
  LILY_INLINE Dots dot(Dots sum, Codes codes, Quad quad) { return {LILY_FOUR(LILY_OP)}; }
#undef LILY_OP
  LILY_INLINE Dots dots_zero() { return izero(); }
  LILY_INLINE I widen(Dots dots) { return dots; }

  LILY_INLINE void store_chunk_order(std::int8_t* p, I x) {
    static constexpr std::uint8_t kOrder[16] = {0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};
    vst1q_s8(p, vqtbl1q_s8(narrow(x), vld1q_u8(kOrder)));
  }

  LILY_INLINE std::uint64_t read_stream(const std::byte* p, std::size_t bytes) {
    Codes sum = load_codes(p);
    for (std::size_t i = 64; i + 64 <= bytes; i += 64) {
      const Codes c = load_codes(p + i);
      for (int j = 0; j < 4; ++j) sum.v[j] = veorq_u8(sum.v[j], c.v[j]);
    }
    const uint8x16_t all = veorq_u8(veorq_u8(sum.v[0], sum.v[1]), veorq_u8(sum.v[2], sum.v[3]));
    return vgetq_lane_u64(vreinterpretq_u64_u8(all), 0) ^ vgetq_lane_u64(vreinterpretq_u64_u8(all), 1);
  }
};

#undef LILY_FOUR

}  // namespace
