// The codes of a KV cache as floats, over any Simd.
#pragma once

namespace {

// Byte kByte of each lane, signed, or the signed code whose value + 128 it is.
template <int kByte, bool kOffset>
LILY_INLINE Simd::F byte_lanes(Simd::I words) {
  const Simd::I top = Simd::template shift_left<24 - 8 * kByte>(words);
  return Simd::to_float(
      Simd::template shift_right<24>(kOffset ? Simd::iadd(top, Simd::iset1(INT32_MIN)) : top));
}

// 16-bit code kCode of each lane.
template <int kCode>
LILY_INLINE Simd::F pair_lanes(Simd::I pairs) {
  return Simd::to_float(
      Simd::template shift_right<16>(kCode == 0 ? Simd::template shift_left<16>(pairs) : pairs));
}

}  // namespace
