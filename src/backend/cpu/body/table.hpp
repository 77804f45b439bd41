// Collects the bodies into the table of one instruction set. Included last by kernels_<set>.cpp.
#pragma once

#include "backend/cpu/body/matmul.hpp"
// (elementwise defines the exponential that attention uses)
#include "backend/cpu/body/elementwise.hpp"
// then
#include "backend/cpu/body/attention.hpp"
#include "backend/cpu/body/delta_net.hpp"
#include "backend/cpu/body/float_peak.hpp"

namespace {

template <class S>
constexpr void add_byte_attention(lily::cpu::Kernels& k) {
  if constexpr (S::kByteDots) {
    k.encode_block = &encode_block<S>;
    k.attend_codes = &attend_codes<S>;
  }
}

constexpr lily::cpu::Kernels make_kernels(const char* name) {
  lily::cpu::Kernels k;
  k.name = name;
  k.quantize = &quantize;
  k.matmul = &matmul<false>;
  if constexpr (kStoresPastCache<Simd>) k.matmul_past_cache = &matmul<true>;
  k.rms_norm = &rms_norm;
  k.l2_normalize = &l2_normalize;
  k.silu_multiply = &silu_multiply<float>;
  k.silu_multiply_halves = &silu_multiply<std::uint16_t>;
  k.gated_rms_norm = &gated_rms_norm;
  k.sigmoid_multiply = &sigmoid_multiply;
  k.add_weighted = &add_weighted<float>;
  k.add_weighted_halves = &add_weighted<std::uint16_t>;
  k.convolve = &convolve;
  k.delta_net = &delta_net;
  k.store_kv = &store_kv;
  k.attend = &attend;
  add_byte_attention<Simd>(k);
  k.read_stream = &read_stream;
  k.integer_peak = &integer_peak;
  k.float_peak = &float_peak;
  return k;
}

}  // namespace
