// The machine's limit of fp32 multiply-adds, over any Simd.
#pragma once

#include "backend/cpu/kernels.hpp"

namespace {

double float_peak(std::int64_t rounds, float* sink) {
  constexpr int kChains = Simd::kAttentionTile;  // as many independent sums as the registers hold
  const F factor = Simd::set1(0.999F), term = Simd::set1(0.001F);
  F sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Simd::set1(static_cast<float>(i));
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) sums[i] = Simd::fma(sums[i], factor, term);
  }
  F total = Simd::zero();
  for (const F& sum : sums) total = Simd::add(total, sum);
  *sink = Simd::reduce_add(total);
  return static_cast<double>(rounds) * kChains * 2 * kLanes;
}

}  // namespace
