// Norms, gates, convolution and the machine's limits, over any Simd.
#pragma once

#include <cmath>

#include "backend/cpu/kernels.hpp"

namespace {

// e^x to about 1 unit in the last place; below -87.3 about 1e-38, above 88.3 about 2e38; NaN stays NaN.
LILY_INLINE F exponential(F x) {
  // The constant comes first: x86's min and max give the second operand when one is NaN.
  x = Simd::max(Simd::set1(-87.3F), x);
  x = Simd::min(Simd::set1(88.3F), x);
  const I n = Simd::round(Simd::mul(x, Simd::set1(1.44269504F)));
  const F nf = Simd::to_float(n);
  F r = Simd::fma(nf, Simd::set1(-0.693359375F), x);
  r = Simd::fma(nf, Simd::set1(2.12194440e-4F), r);
  // Taylor polynomial of degree 7 on |r| <= ln(2) / 2: truncation below 2e-9.
  F p = Simd::set1(1.0F / 5040);
  p = Simd::fma(p, r, Simd::set1(1.0F / 720));
  p = Simd::fma(p, r, Simd::set1(1.0F / 120));
  p = Simd::fma(p, r, Simd::set1(1.0F / 24));
  p = Simd::fma(p, r, Simd::set1(1.0F / 6));
  p = Simd::fma(p, r, Simd::set1(0.5F));
  p = Simd::fma(p, r, Simd::set1(1.0F));
  p = Simd::fma(p, r, Simd::set1(1.0F));
  const F power = Simd::bits_to_float(Simd::template shift_left<23>(Simd::iadd(n, Simd::iset1(127))));
  // An integer conversion loses NaN; adding x - x brings it back.
  return Simd::fma(p, power, Simd::sub(x, x));
}

LILY_INLINE F sigmoid(F x) {
  const F one = Simd::set1(1.0F);
  return Simd::div(one, Simd::add(one, exponential(Simd::sub(Simd::zero(), x))));
}

LILY_INLINE F load_values(const float* p) { return Simd::load(p); }
LILY_INLINE F load_values(const std::uint16_t* p) { return Simd::load_bf16(p); }

LILY_INLINE float sum_of_squares(const float* x, int n) {
  F a = Simd::zero();
  for (int i = 0; i < n; i += kLanes) {
    const F v = Simd::load(x + i);
    a = Simd::fma(v, v, a);
  }
  return Simd::reduce_add(a);
}

void rms_norm(const float* x, const float* factor, float eps, int n, float* out) {
  const F scale = Simd::set1(1.0F / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps));
  for (int i = 0; i < n; i += kLanes) {
    Simd::store(out + i, Simd::mul(Simd::mul(Simd::load(x + i), scale), Simd::load(factor + i)));
  }
}

void l2_normalize(float* x, float eps, float scale, int n) {
  const F factor = Simd::set1(scale / std::sqrt(sum_of_squares(x, n) + eps));
  for (int i = 0; i < n; i += kLanes) Simd::store(x + i, Simd::mul(Simd::load(x + i), factor));
}

template <class Value>
void silu_multiply(const Value* gate, const Value* up, int n, float* out) {
  for (int i = 0; i < n; i += kLanes) {
    const F g = load_values(gate + i);
    Simd::store(out + i, Simd::mul(Simd::mul(g, sigmoid(g)), load_values(up + i)));
  }
}

void gated_rms_norm(const float* x, const float* weight, const float* gate, float eps, int n, float* out) {
  const F scale = Simd::set1(1.0F / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps));
  for (int i = 0; i < n; i += kLanes) {
    const F g = Simd::load(gate + i);
    const F normed = Simd::mul(Simd::mul(Simd::load(x + i), scale), Simd::load(weight + i));
    Simd::store(out + i, Simd::mul(normed, Simd::mul(g, sigmoid(g))));
  }
}

void sigmoid_multiply(const float* gate, int n, float* x) {
  for (int i = 0; i < n; i += kLanes) {
    Simd::store(x + i, Simd::mul(Simd::load(x + i), sigmoid(Simd::load(gate + i))));
  }
}

template <class Value>
void add_weighted(const Value* const* rows, const float* weights, int count, int n, float* y) {
  for (int i = 0; i < n; i += kLanes) {
    F sum = Simd::load(y + i);
    for (int r = 0; r < count; ++r) sum = Simd::fma(Simd::set1(weights[r]), load_values(rows[r] + i), sum);
    Simd::store(y + i, sum);
  }
}

void convolve(const float* const* rows, int first, const float* weights, std::ptrdiff_t stride, int taps,
              int channels, float* out) {
  for (int c = 0; c < channels; c += kLanes) {
    F sum = Simd::zero();
    for (int m = 0; m < taps; ++m) {
      sum = Simd::fma(Simd::load(weights + m * stride + c), Simd::load(rows[m] + first + c), sum);
    }
    Simd::store(out + c, Simd::mul(sum, sigmoid(sum)));
  }
}

std::uint64_t read_stream(const std::byte* data, std::size_t bytes) { return Simd::read_stream(data, bytes); }

double integer_peak(std::int64_t rounds, std::int32_t* sink) {
  // Independent sums hide the latency; more than the registers hold would be moved to memory and back.
  constexpr int kChains = Simd::kAttentionTile < 12 ? Simd::kAttentionTile : 12;
  alignas(64) std::byte codes_memory[64];
  alignas(64) std::int8_t quads[4 * kChains];
  // The four products of a sum cancel, so that no number of rounds overflows.
  for (std::byte& codes : codes_memory) codes = std::byte{0x77};
  for (int i = 0; i < 4 * kChains; ++i) quads[i] = static_cast<std::int8_t>(i % 2 == 0 ? i + 1 : -i);
  const Simd::Codes codes = Simd::load_codes(codes_memory);
  Simd::Quad quad[kChains];
  Simd::Dots sums[kChains];
  for (int i = 0; i < kChains; ++i) {
    quad[i] = Simd::load_quad(quads + 4 * i);
    sums[i] = Simd::dots_zero();
  }
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = Simd::dot(sums[i], codes, quad[i]);
  }
  I total = Simd::izero();
  for (const Simd::Dots& sum : sums) total = Simd::iadd(total, Simd::widen(sum));
  *sink = Simd::ireduce_add(total);
  return static_cast<double>(rounds) * kChains * 2 * 64;
}

}  // namespace
