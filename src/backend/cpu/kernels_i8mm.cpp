// The CPU kernels for NEON with 8-bit matrix products (i8mm): prefill two tokens at a time, everything else
// as with dot products.
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/simd/neon.hpp"

namespace lily::cpu {

namespace {

using F = Simd::F;
using I = Simd::I;

constexpr int kPairsFast = 2, kPairsExact = 1;  // of tokens, in a register tile: 16 accumulators either way

// Sums of one term: register r of a pair holds two rows by two tokens, [row 2r, 2r + 1][token].
struct PairSums {
  int32x4_t v[8];
};

LILY_INLINE I rows_of_first(const PairSums& sums) {
  I rows;
  for (int i = 0; i < 4; ++i) rows.v[i] = vuzp1q_s32(sums.v[2 * i], sums.v[2 * i + 1]);
  return rows;
}

LILY_INLINE I rows_of_second(const PairSums& sums) {
  I rows;
  for (int i = 0; i < 4; ++i) rows.v[i] = vuzp2q_s32(sums.v[2 * i], sums.v[2 * i + 1]);
  return rows;
}

// Eight columns of two rows each, in chunk order: what one instruction multiplies.
struct RowPairs {
  uint8x16_t v[8];
};

template <int kPlanes>
LILY_INLINE RowPairs load_row_pairs(const std::byte* chunk) {
  const Simd::Codes codes = Simd::load_codes(chunk);
  RowPairs pairs;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    uint8x16_t even = vandq_u8(codes.v[i], vdupq_n_u8(15)), odd = vshrq_n_u8(codes.v[i], 4);
    if constexpr (kPlanes == 2) {
      const uint8x16_t low = vld1q_u8(reinterpret_cast<const std::uint8_t*>(chunk) + 512 + 16 * i);
      even = vsliq_n_u8(vandq_u8(low, vdupq_n_u8(15)), even, 4);
      odd = vsliq_n_u8(vshrq_n_u8(low, 4), odd, 4);
    }
    const uint32x4_t a = vreinterpretq_u32_u8(even), b = vreinterpretq_u32_u8(odd);
    pairs.v[2 * i] = vreinterpretq_u8_u32(vzip1q_u32(a, b));
    pairs.v[2 * i + 1] = vreinterpretq_u8_u32(vzip2q_u32(a, b));
  }
  return pairs;
}

LILY_INLINE void multiply(PairSums& sums, const RowPairs& rows, const std::int8_t* first,
                          const std::int8_t* second) {
  const int8x16_t tokens = vcombine_s8(vld1_s8(first), vld1_s8(second));
#pragma GCC unroll 8
  for (int r = 0; r < 8; ++r) sums.v[r] = vusmmlaq_s32(sums.v[r], rows.v[r], tokens);
}

// The affine formula by the operations of body/matmul.hpp in their order: both give the same bits.
LILY_INLINE F scaled(F result, I sum, F scale, F bias, const ActivationRow& row, int group) {
  const F product = Simd::mul(Simd::to_float(sum), Simd::set1(row.scales[group]));
  result = Simd::fma(product, scale, result);
  return Simd::fma(bias, Simd::set1(row.sums[group]), result);
}

LILY_INLINE I combined(I high, I low) { return Simd::iadd(Simd::shift_left<8>(high), low); }

// One block of 16 rows by kPairs pairs of tokens.
template <int kPairs, bool kExact, int kPlanes>
void tile(const std::byte* block, int groups, const ActivationRow* rows, float* out, std::ptrdiff_t stride) {
  constexpr int kGroupBytes = kPlanes * 512 + 64;
  F result[2 * kPairs];
  for (F& lanes : result) lanes = Simd::zero();
  for (int g = 0; g < groups; ++g) {
    const std::byte* group = block + static_cast<std::ptrdiff_t>(g) * kGroupBytes;
    PairSums high[kPairs] = {}, low[kPairs] = {};
    for (int c = 0; c < 8; ++c) {
      const RowPairs codes = load_row_pairs<kPlanes>(group + c * 64);
      const int at = g * kGroup + c * 8;
#pragma GCC unroll 2
      for (int p = 0; p < kPairs; ++p) {
        multiply(high[p], codes, rows[2 * p].high + at, rows[2 * p + 1].high + at);
        if constexpr (kExact) multiply(low[p], codes, rows[2 * p].low + at, rows[2 * p + 1].low + at);
      }
    }
    const auto* affine = reinterpret_cast<const std::uint16_t*>(group + kPlanes * 512);
    const F scale = Simd::load_bf16(affine), bias = Simd::load_bf16(affine + kLanes);
    for (int p = 0; p < kPairs; ++p) {
      I first = rows_of_first(high[p]), second = rows_of_second(high[p]);
      if constexpr (kExact) {
        first = combined(first, rows_of_first(low[p]));
        second = combined(second, rows_of_second(low[p]));
      }
      result[2 * p] = scaled(result[2 * p], first, scale, bias, rows[2 * p], g);
      result[2 * p + 1] = scaled(result[2 * p + 1], second, scale, bias, rows[2 * p + 1], g);
    }
  }
  for (int t = 0; t < 2 * kPairs; ++t) Simd::store(out + t * stride, result[t]);
}

// An even number of tokens.
template <bool kExact, int kPlanes>
void multiply_pairs(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                    float* out, std::ptrdiff_t stride) {
  constexpr int kMost = 2 * (kExact ? kPairsExact : kPairsFast);
  for (int block = begin; block < end; ++block) {
    const std::byte* data = matrix.data + static_cast<std::size_t>(block) * matrix.block_bytes();
    float* block_out = out + static_cast<std::ptrdiff_t>(block) * kLanes;
    int t = 0;
    for (; t + kMost <= tokens; t += kMost) {
      tile<kMost / 2, kExact, kPlanes>(data, matrix.groups, rows + t, block_out + t * stride, stride);
    }
    if (t < tokens) tile<1, kExact, kPlanes>(data, matrix.groups, rows + t, block_out + t * stride, stride);
  }
}

void matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens, float* out,
            std::ptrdiff_t stride) {
  const int paired = tokens / 2 * 2;
  if (paired > 0) {
    const bool exact = rows[0].low != nullptr;
    const auto run = matrix.planes == 1 ? (exact ? &multiply_pairs<true, 1> : &multiply_pairs<false, 1>)
                                        : (exact ? &multiply_pairs<true, 2> : &multiply_pairs<false, 2>);
    run(matrix, begin, end, rows, paired, out, stride);
  }
  if (paired < tokens)
    neon_kernels().matmul(matrix, begin, end, rows + paired, 1, out + paired * stride, stride);
}

double integer_peak(std::int64_t rounds, std::int32_t* sink) {
  constexpr int kChains = 16;  // independent sums hide the latency
  const uint8x16_t codes = vdupq_n_u8(7);
  const int8x16_t tokens = vdupq_n_s8(3);
  int32x4_t sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = vdupq_n_s32(i);
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sums[i] = vusmmlaq_s32(sums[i], codes, tokens);
  }
  int32x4_t total = vdupq_n_s32(0);
  for (const int32x4_t sum : sums) total = vaddq_s32(total, sum);
  *sink = vaddvq_s32(total);
  return static_cast<double>(rounds) * kChains * 2 * 32;
}

}  // namespace

const Kernels& i8mm_kernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = neon_kernels();
    kernels.name = "neon-i8mm";
    kernels.matmul = &matmul;
    kernels.integer_peak = &integer_peak;
    return kernels;
  }();
  return kKernels;
}

}  // namespace lily::cpu
