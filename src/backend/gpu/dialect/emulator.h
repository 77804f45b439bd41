// The dialect for the emulator: plain C++, one fiber per lane; simd functions and barriers meet in the
// emulator.
#pragma once
#include <cmath>
#include <cstring>

#include "backend/gpu/emulator/lanes.hpp"

#define GPU_FN static inline
#if defined(__clang__)
#define GPU_UNROLL _Pragma("unroll")
#else
#define GPU_UNROLL
#endif

#define GPU_KERNEL(K)                                                                                  \
  static_assert(sizeof(K::Shared) <= 32768, #K ": threadgroup memory");                                \
  GPU_FN void K##_body(const K& a, [[maybe_unused]] K::Shared& s, Thread t);                           \
  static void K##_entry(const void* arguments, void* threadgroup_memory, Thread thread) {              \
    K##_body(*static_cast<const K*>(arguments), *static_cast<K::Shared*>(threadgroup_memory), thread); \
  }                                                                                                    \
  GPU_FN void K##_body([[maybe_unused]] const K& a, [[maybe_unused]] K::Shared& s, [[maybe_unused]] Thread t)

namespace lily::gpu {

using std::exp, std::log, std::sqrt, std::fma, std::fabs, std::cos, std::sin;
GPU_FN float rsqrt(float x) { return 1.0f / std::sqrt(x); }
template <class T>
GPU_FN T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
GPU_FN T max(T a, T b) {
  return a < b ? b : a;
}
GPU_FN uint popcount(uint v) { return static_cast<uint>(__builtin_popcount(v)); }

// Every meeting carries its place in the source, so that lanes that meet at different calls are caught.
#define GPU_AT emulator::Place at = {__builtin_FILE(), __builtin_LINE()}

GPU_FN void group_barrier(GPU_AT) { emulator::group_barrier(at); }
GPU_FN void simd_sync(GPU_AT) { emulator::exchange(0u, at); }
template <class T>
GPU_FN T simd_shuffle_xor(T v, uint mask, GPU_AT) {
  return emulator::exchange(v, at)[emulator::lane() ^ mask];
}

// Adds in the order of a butterfly over lane masks 16, 8, .. 1, as the CUDA branch does.
template <class T, class Function>
T butterfly(const emulator::Lanes<T>& lanes, Function combine) {
  T x[32];
  for (uint i = 0; i < 32; ++i) x[i] = lanes[i];
  for (uint m = 16; m != 0; m >>= 1) {
    for (uint i = 0; i < m; ++i) x[i] = combine(x[i], x[i + m]);
  }
  return x[0];
}
template <class T>
GPU_FN T simd_sum(T v, GPU_AT) {
  return emulator::reduce(v, at, [](const emulator::Lanes<T>& lanes) {
    return butterfly(lanes, [](T a, T b) { return static_cast<T>(a + b); });
  });
}
template <class T>
GPU_FN T simd_max(T v, GPU_AT) {
  return emulator::reduce(v, at, [](const emulator::Lanes<T>& lanes) {
    return butterfly(lanes, [](T a, T b) { return a < b ? b : a; });
  });
}
template <class T>
GPU_FN T simd_min(T v, GPU_AT) {
  return emulator::reduce(v, at, [](const emulator::Lanes<T>& lanes) {
    return butterfly(lanes, [](T a, T b) { return b < a ? b : a; });
  });
}
GPU_FN uint simd_prefix_exclusive_sum(uint v, GPU_AT) {
  const auto lanes = emulator::exchange(v, at);
  uint sum = 0;
  for (uint i = 0; i < emulator::lane(); ++i) sum += lanes[i];
  return sum;
}
GPU_FN uint simd_mask(bool p, GPU_AT) {
  return emulator::reduce(static_cast<uint>(p), at, [](const emulator::Lanes<uint>& lanes) {
    uint mask = 0;
    for (uint i = 0; i < 32; ++i) mask |= lanes[i] << i;
    return mask;
  });
}

template <class T>
GPU_FN uint4 load16(const T* p) {
  return emulator::load<uint4>(p);
}
template <class T>
GPU_FN void store16(T* p, uint4 v) {
  emulator::store(p, v);
}
GPU_FN uint2 load8(const uchar* p) { return emulator::load<uint2>(p); }
GPU_FN float4 load4(const float* p) { return emulator::load<float4>(p); }
GPU_FN void store4(float* p, float4 v) { emulator::store(p, v); }

GPU_FN float quick_divide(float x, float y) { return x / y; }
// NaN is some integer everywhere.
GPU_FN int round_to_int(float x) { return std::isnan(x) ? 0 : static_cast<int>(std::nearbyint(x)); }
GPU_FN float bf16_lo(uint w) { return as_type<float>(w << 16); }
GPU_FN float bf16_hi(uint w) { return as_type<float>(w & 0xffff0000u); }
GPU_FN uint half_pack(float lo, float hi) {
  return as_type<ushort>(static_cast<half>(lo)) | static_cast<uint>(as_type<ushort>(static_cast<half>(hi)))
                                                      << 16;
}

GPU_FN uint atomic_add(atomic_uint* p, uint v) { return __atomic_fetch_add(&p->value, v, __ATOMIC_RELAXED); }
GPU_FN uint atomic_get(atomic_uint* p) { return __atomic_load_n(&p->value, __ATOMIC_RELAXED); }
GPU_FN void atomic_set(atomic_uint* p, uint v) { __atomic_store_n(&p->value, v, __ATOMIC_RELAXED); }

}  // namespace lily::gpu
