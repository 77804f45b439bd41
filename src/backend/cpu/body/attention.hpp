// Storing KV cache rows, and attention over a block of positions, over any Simd.
#pragma once

#include <cmath>
#include <cstring>

#include "backend/cpu/body/attention_bytes.hpp"
#include "backend/cpu/body/attention_codes.hpp"
#include "backend/cpu/body/attention_halves.hpp"
#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::key_code_index;
using lily::cpu::key_scale_index;
using lily::cpu::KvView;
using lily::cpu::value_code_index;
using lily::cpu::value_index;
using lily::cpu::value_scale_index;

// The scale of a group's 8-bit codes; NaN when an element is not finite, so that it reaches the logits.
LILY_INLINE float code_scale(const float* x) {
  F largest = Simd::zero(), poison = Simd::zero();
  for (int i = 0; i < kGroup; i += kLanes) {
    const F v = Simd::load(x + i);
    largest = Simd::max(largest, Simd::abs(v));
    poison = Simd::fma(v, Simd::zero(), poison);
  }
  return Simd::reduce_max(largest) / 127 + Simd::reduce_add(poison);
}

void store_halves(const KvView& kv, int head_dim, int position, const float* key, const float* value) {
  auto* keys = static_cast<std::uint16_t*>(kv.keys) +
               static_cast<std::ptrdiff_t>(position / kLanes) * head_dim * kLanes + position % kLanes;
  auto* values = static_cast<std::uint16_t*>(kv.values);
  for (int d = 0; d < head_dim; d += kLanes) {
    Simd::store_half(values + value_index(head_dim, position, d), Simd::load(value + d));
    std::uint16_t halves[kLanes];
    Simd::store_half(halves, Simd::load(key + d));
    for (int i = 0; i < kLanes; ++i) keys[static_cast<std::ptrdiff_t>(d + i) * kLanes] = halves[i];
  }
}

void store_codes(const KvView& kv, int head_dim, int position, const float* key, const float* value) {
  auto* keys = static_cast<std::uint8_t*>(kv.keys);
  auto* values = static_cast<std::int8_t*>(kv.values);
  for (int g = 0; g < head_dim; g += kGroup) {
    const float key_scale = code_scale(key + g);
    const float value_scale = code_scale(value + g);
    const F key_inverse = Simd::set1(key_scale > 0 ? 1 / key_scale : 0);
    const F value_inverse = Simd::set1(value_scale > 0 ? 1 / value_scale : 0);
    kv.key_scales[key_scale_index(head_dim, position, g)] = key_scale;
    kv.value_scales[value_scale_index(head_dim, position, g)] = value_scale;
    for (int d = g; d < g + kGroup; d += kLanes) {
      std::int8_t codes[kLanes];
      Simd::store_chunk_order(codes, Simd::round(Simd::mul(Simd::load(key + d), key_inverse)));
      for (int quad = 0; quad < kLanes; quad += 4) {
        std::uint8_t* to = keys + key_code_index(head_dim, position, d) + quad * kLanes;
        for (int i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(codes[quad + i] + 128);
      }
      Simd::store_int8(codes, Simd::round(Simd::mul(Simd::load(value + d), value_inverse)));
      std::int8_t* to = values + value_code_index(head_dim, position, d);
      for (int i = 0; i < kLanes; ++i) to[i * 4] = codes[i];
    }
  }
}

void store_kv(const KvView& kv, int head_dim, int position, const float* key, const float* value) {
  if (kv.int8) {
    store_codes(kv, head_dim, position, key, value);
  } else {
    store_halves(kv, head_dim, position, key, value);
  }
}

template <class S>
LILY_INLINE void attend_by(const KvView& kv, int head_dim, const float* queries, int heads, int begin,
                           int end, const AttentionState& state) {
  if (!kv.int8) {
    attend_halves(kv, head_dim, queries, heads, begin, end, state);
  } else if constexpr (S::kByteDots) {
    attend_bytes<S>(kv, head_dim, queries, heads, begin, end, state);
  } else {
    attend_int8<S>(kv, head_dim, queries, heads, begin, end, state);
  }
}

void attend(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
            const AttentionState& state) {
  attend_by<Simd>(kv, head_dim, queries, heads, begin, end, state);
}

}  // namespace
