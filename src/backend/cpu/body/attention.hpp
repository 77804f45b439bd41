// Storing KV cache rows, and attention over a block of positions, over any Simd.
#pragma once

#include <cstring>

#include "backend/cpu/body/attention_bytes.hpp"
#include "backend/cpu/body/attention_codes.hpp"
#include "backend/cpu/body/attention_pairs.hpp"
#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::key_code_index;
using lily::cpu::KvView;
using lily::cpu::value_code_index;

// The scale of a group's codes up to `limit`; NaN when an element is not finite, so that it reaches the
// logits.
LILY_INLINE float code_scale(const float* x, float limit) {
  F largest = Simd::zero(), poison = Simd::zero();
  for (int i = 0; i < kGroup; i += kLanes) {
    const F v = Simd::load(x + i);
    largest = Simd::max(largest, Simd::abs(v));
    poison = Simd::fma(v, Simd::zero(), poison);
  }
  return Simd::reduce_max(largest) / limit + Simd::reduce_add(poison);
}

// A group's scales of keys and values at `position`, stored, and what multiplies values to give codes.
struct GroupCodes {
  GroupCodes(const KvView& kv, int head_dim, int position, int dim, const float* key, const float* value,
             float limit) {
    const float key_scale = code_scale(key + dim, limit), value_scale = code_scale(value + dim, limit);
    kv.key_scales[key_scale_index(head_dim, position, dim)] = key_scale;
    kv.value_scales[value_scale_index(head_dim, position, dim)] = value_scale;
    key_inverse = Simd::set1(key_scale > 0 ? 1 / key_scale : 0);
    value_inverse = Simd::set1(value_scale > 0 ? 1 / value_scale : 0);
  }
  I key(const float* x) const { return Simd::round(Simd::mul(Simd::load(x), key_inverse)); }
  I value(const float* x) const { return Simd::round(Simd::mul(Simd::load(x), value_inverse)); }
  F key_inverse, value_inverse;
};

void store_pairs(const KvView& kv, int head_dim, int position, const float* key, const float* value) {
  auto* keys = static_cast<std::int16_t*>(kv.keys);
  auto* values = static_cast<std::int16_t*>(kv.values);
  for (int g = 0; g < head_dim; g += kGroup) {
    const GroupCodes group(kv, head_dim, position, g, key, value, kPairLimit);
    for (int d = g; d < g + kGroup; d += kLanes) {
      std::int16_t codes[kLanes];
      Simd::store_int16(codes, group.key(key + d));
      std::int16_t* to = keys + key_index(head_dim, position, d);
      for (int i = 0; i < kLanes; i += 2) std::memcpy(to + i * kKeyStrip, codes + i, 2 * sizeof(*codes));
      Simd::store_int16(codes, group.value(value + d));
      to = values + value_index(head_dim, position, d);
      for (int i = 0; i < kLanes; ++i) to[2 * i] = codes[i];
    }
  }
}

void store_codes(const KvView& kv, int head_dim, int position, const float* key, const float* value) {
  auto* keys = static_cast<std::uint8_t*>(kv.keys);
  auto* values = static_cast<std::int8_t*>(kv.values);
  for (int g = 0; g < head_dim; g += kGroup) {
    const GroupCodes group(kv, head_dim, position, g, key, value, 127);
    for (int d = g; d < g + kGroup; d += kLanes) {
      std::int8_t codes[kLanes];
      Simd::store_chunk_order(codes, group.key(key + d));
      for (int quad = 0; quad < kLanes; quad += 4) {
        std::uint8_t* to = keys + key_code_index(head_dim, position, d) + quad * kLanes;
        for (int i = 0; i < 4; ++i) to[i] = static_cast<std::uint8_t>(codes[quad + i] + 128);
      }
      Simd::store_int8(codes, group.value(value + d));
      std::int8_t* to = values + value_code_index(head_dim, position, d);
      for (int i = 0; i < kLanes; ++i) to[i * 4] = codes[i];
    }
  }
}

void store_kv(const KvView& kv, int head_dim, int position, const float* key, const float* value) {
  if (kv.int8) {
    store_codes(kv, head_dim, position, key, value);
  } else {
    store_pairs(kv, head_dim, position, key, value);
  }
}

template <class S>
LILY_INLINE void attend_by(const KvView& kv, int head_dim, const float* queries, int heads, int begin,
                           int end, const AttentionState& state) {
  if (!kv.int8) {
    attend_pairs<S>(kv, head_dim, queries, heads, begin, end, state);
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
