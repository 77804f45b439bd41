// The dialect for CUDA.
#pragma once

#define GPU_FN static __device__ __forceinline__
#define GPU_UNROLL _Pragma("unroll")

#define GPU_KERNEL(K)                                                                                \
  static_assert(sizeof(K::Shared) <= 32768, #K ": threadgroup memory");                              \
  GPU_FN void K##_body(const K& a, [[maybe_unused]] K::Shared& s, Thread t);                         \
  extern "C" __global__ void __launch_bounds__(K::threads) K##_kernel(const __grid_constant__ K a) { \
    alignas(16) __shared__ K::Shared s;                                                              \
    K##_body(a, s,                                                                                   \
             Thread{uint3{blockIdx.x, blockIdx.y, blockIdx.z}, threadIdx.x, threadIdx.x & 31u,       \
                    threadIdx.x >> 5});                                                              \
  }                                                                                                  \
  GPU_FN void K##_body(const K& a, [[maybe_unused]] K::Shared& s, [[maybe_unused]] Thread t)

namespace lily::gpu {

GPU_FN void group_barrier() { __syncthreads(); }
GPU_FN void simd_sync() { __syncwarp(); }

template <class T>
GPU_FN T simd_shuffle_xor(T v, uint mask) {
  return __shfl_xor_sync(~0u, v, mask);
}
GPU_FN float simd_sum(float v) {
  GPU_UNROLL for (uint m = 16; m; m >>= 1) v += __shfl_xor_sync(~0u, v, m);
  return v;
}
GPU_FN float simd_max(float v) {
  GPU_UNROLL for (uint m = 16; m; m >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, m));
  return v;
}
GPU_FN float simd_min(float v) {
  GPU_UNROLL for (uint m = 16; m; m >>= 1) v = fminf(v, __shfl_xor_sync(~0u, v, m));
  return v;
}
GPU_FN uint simd_sum(uint v) { return __reduce_add_sync(~0u, v); }
GPU_FN uint simd_max(uint v) { return __reduce_max_sync(~0u, v); }
GPU_FN uint simd_min(uint v) { return __reduce_min_sync(~0u, v); }
GPU_FN int simd_sum(int v) { return __reduce_add_sync(~0u, v); }
GPU_FN int simd_max(int v) { return __reduce_max_sync(~0u, v); }
GPU_FN int simd_min(int v) { return __reduce_min_sync(~0u, v); }
GPU_FN uint simd_prefix_exclusive_sum(uint v) {
  uint lane = threadIdx.x & 31u, sum = v;
  GPU_UNROLL for (uint d = 1; d < 32; d <<= 1) {
    uint up = __shfl_up_sync(~0u, sum, d);
    if (lane >= d) sum += up;
  }
  return sum - v;
}
GPU_FN uint simd_mask(bool p) { return __ballot_sync(~0u, p); }
GPU_FN uint popcount(uint v) { return uint(__popc(v)); }

template <class To, class From>
GPU_FN To as_type(From v) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  To r;
  memcpy(&r, &v, sizeof r);
  return r;
}

template <class T>
GPU_FN T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
GPU_FN T max(T a, T b) {
  return a < b ? b : a;
}

// 16 bytes, aligned to 16.
template <class T>
GPU_FN uint4 load16(const T* p) {
  return *reinterpret_cast<const uint4*>(p);
}
template <class T>
GPU_FN void store16(T* p, uint4 v) {
  *reinterpret_cast<uint4*>(p) = v;
}
GPU_FN uint2 load8(const uchar* p) { return *reinterpret_cast<const uint2*>(p); }
GPU_FN float4 load4(const float* p) { return *reinterpret_cast<const float4*>(p); }
GPU_FN void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }

// By the rounding of an addition: conversions run at an eighth of its rate.
GPU_FN int round_to_int(float x) { return __float_as_int(x + 12582912.0f) - 0x4b400000; }
GPU_FN float quick_divide(float x, float y) { return __fdividef(x, y); }
GPU_FN float bf16_lo(uint w) { return __uint_as_float(w << 16); }
GPU_FN float bf16_hi(uint w) { return __uint_as_float(w & 0xffff0000u); }
GPU_FN uint half_pack(float lo, float hi) { return as_type<uint>(__floats2half2_rn(lo, hi)); }

GPU_FN uint atomic_add(atomic_uint* p, uint v) { return atomicAdd(&p->value, v); }
GPU_FN uint atomic_get(atomic_uint* p) { return *(volatile uint*)&p->value; }
GPU_FN void atomic_set(atomic_uint* p, uint v) { *(volatile uint*)&p->value = v; }

}  // namespace lily::gpu
