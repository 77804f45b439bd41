// The dialect for Metal. Needs MSL 3.1 (bfloat).
#pragma once
#if defined(GPU_TENSOR_OPS)  // MSL 4, set by the host for GPUs whose matrix units it reaches
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
#include <metal_tensor>
#else
#include <metal_simdgroup_matrix>
#endif

#define GPU_FN static inline __attribute__((always_inline))
#define GPU_UNROLL _Pragma("clang loop unroll(full)")
#if !defined(GPU_THREADGROUP)  // the check on other machines declares it extern
#define GPU_THREADGROUP threadgroup
#endif

#define GPU_KERNEL(K)                                                                       \
  static_assert(sizeof(K::Shared) <= 32768, #K ": threadgroup memory");                     \
  GPU_FN void K##_body(constant K& a, [[maybe_unused]] threadgroup K::Shared& s, Thread t); \
  [[kernel, max_total_threads_per_threadgroup(K::threads)]] void K##_kernel(                \
      constant K& a [[buffer(0)]], uint3 group [[threadgroup_position_in_grid]],            \
      uint index [[thread_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]],  \
      uint simd [[simdgroup_index_in_threadgroup]]) {                                       \
    alignas(16) GPU_THREADGROUP K::Shared K##_shared;                                       \
    K##_body(a, K##_shared, Thread{group, index, lane, simd});                              \
  }                                                                                         \
  GPU_FN void K##_body(constant K& a, [[maybe_unused]] threadgroup K::Shared& s, [[maybe_unused]] Thread t)

namespace lily::gpu {

GPU_FN void group_barrier() { threadgroup_barrier(mem_flags::mem_threadgroup); }
GPU_FN void simd_sync() { simdgroup_barrier(mem_flags::mem_threadgroup); }

// simd_sum, simd_max, simd_min, simd_shuffle_xor, simd_prefix_exclusive_sum, popcount and as_type are MSL's
// own.
GPU_FN uint simd_mask(bool p) { return uint(static_cast<simd_vote::vote_t>(simd_ballot(p))); }

template <class T>
GPU_FN uint4 load16(in<T> p) {
  return *(in<uint4>)p;
}
template <class T>
GPU_FN uint4 load16(shared<T> p) {
  return *(shared<uint4>)p;
}
template <class T>
GPU_FN void store16(out<T> p, uint4 v) {
  *(out<uint4>)p = v;
}
template <class T>
GPU_FN void store16(shared<T> p, uint4 v) {
  *(shared<uint4>)p = v;
}
GPU_FN uint2 load8(in<uchar> p) { return *(in<uint2>)p; }
GPU_FN float4 load4(in<float> p) { return *(in<float4>)p; }
GPU_FN float4 load4(shared<float> p) { return *(shared<float4>)p; }
GPU_FN void store4(out<float> p, float4 v) { *(out<float4>)p = v; }
GPU_FN void store4(shared<float> p, float4 v) { *(shared<float4>)p = v; }

GPU_FN int round_to_int(float x) { return int(rint(x)); }
GPU_FN float quick_divide(float x, float y) { return fast::divide(x, y); }
GPU_FN float bf16_lo(uint w) { return as_type<float>(w << 16); }
GPU_FN float bf16_hi(uint w) { return as_type<float>(w & 0xffff0000u); }
GPU_FN uint half_pack(float lo, float hi) { return as_type<uint>(half2{half(lo), half(hi)}); }

GPU_FN uint atomic_add(out<atomic_uint> p, uint v) {
  return atomic_fetch_add_explicit(p, v, memory_order_relaxed);
}
GPU_FN uint atomic_add(shared<atomic_uint> p, uint v) {
  return atomic_fetch_add_explicit(p, v, memory_order_relaxed);
}
GPU_FN uint atomic_get(shared<atomic_uint> p) { return atomic_load_explicit(p, memory_order_relaxed); }
GPU_FN void atomic_set(shared<atomic_uint> p, uint v) { atomic_store_explicit(p, v, memory_order_relaxed); }

}  // namespace lily::gpu
