// The gated delta rule over a run of tokens, 16 value rows at a time, over any Simd.
#pragma once

#include "backend/cpu/kernels.hpp"

namespace {

// S k, summed as delta_net_token sums it for the next token: a run cut in pieces gives the same bits.
LILY_INLINE F read_state(const float* state, int key_dim, const float* key) {
  F d[4];
  for (int i = 0; i < 4; ++i) d[i] = Simd::zero();
  for (int j = 0; j < key_dim; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const F s = Simd::load(state + static_cast<std::ptrdiff_t>(j + i) * kLanes);
      d[i] = Simd::fma(Simd::set1(key[j + i]), s, d[i]);
    }
  }
  return Simd::add(Simd::add(d[0], d[1]), Simd::add(d[2], d[3]));
}

// S q and S k' for the next token are summed while S is written, so the 8 KiB of a block pass through the
// registers once per token. Four partial sums hide the latency of the multiply-adds.
template <bool kHasNext>
LILY_INLINE void delta_net_token(float* state, int key_dim, const float* query, const float* key,
                                 const float* next_key, F alpha, F update, F& out, F& next_dot) {
  F o[4], d[4];
  for (int i = 0; i < 4; ++i) o[i] = d[i] = Simd::zero();
  for (int j = 0; j < key_dim; j += 4) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* row = state + static_cast<std::ptrdiff_t>(j + i) * kLanes;
      const F s = Simd::fma(Simd::set1(key[j + i]), update, Simd::mul(alpha, Simd::load(row)));
      Simd::store(row, s);
      o[i] = Simd::fma(Simd::set1(query[j + i]), s, o[i]);
      if constexpr (kHasNext) d[i] = Simd::fma(Simd::set1(next_key[j + i]), s, d[i]);
    }
  }
  out = Simd::add(Simd::add(o[0], o[1]), Simd::add(o[2], o[3]));
  next_dot = Simd::add(Simd::add(d[0], d[1]), Simd::add(d[2], d[3]));
}

void delta_net(const lily::cpu::DeltaNetRun& run, int block) {
  float* state = run.state + static_cast<std::ptrdiff_t>(block) * run.key_dim * kLanes;
  F dot = read_state(state, run.key_dim, run.keys);
  for (int t = 0; t < run.tokens; ++t) {
    const float* key = run.keys + t * run.key_stride;
    const float* query = run.queries + t * run.query_stride;
    const F alpha = Simd::set1(run.alpha[t * run.gate_stride]);
    const F beta = Simd::set1(run.beta[t * run.gate_stride]);
    const F value = Simd::load(run.values + t * run.value_stride + block * kLanes);
    // The decayed state is read: (alpha S) k = alpha (S k).
    const F update = Simd::mul(beta, Simd::sub(value, Simd::mul(alpha, dot)));
    F out;
    if (t + 1 < run.tokens) {
      delta_net_token<true>(state, run.key_dim, query, key, key + run.key_stride, alpha, update, out, dot);
    } else {
      delta_net_token<false>(state, run.key_dim, query, key, nullptr, alpha, update, out, dot);
    }
    Simd::store(run.out + t * run.out_stride + block * kLanes, out);
  }
}

}  // namespace
