// The types that kernels and the host share: argument structs are written in these alone.
//
// Read by the metal compiler, nvcc and host compilers. A pointer carries its address space in an alias, so
// neither kernels nor argument structs hold an address-space keyword:
//
//   in<T> out<T>     device memory, read / written
//   shared<T>        threadgroup memory
//   ref<T> cref<T>   a variable of the calling thread
//
// half is IEEE binary16, bfloat the upper half of a float. Arithmetic on halves is done in float by every
// kernel; only matrix tiles multiply halves.
#pragma once

#if defined(__METAL_VERSION__)
#include <metal_stdlib>
#elif defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include <cstdint>
#include <cstring>

#include "base/bf16.hpp"
#endif

namespace lily::gpu {

#if defined(__METAL_VERSION__)

using namespace metal;  // uint, half, bfloat, float4, atomic_uint, as_type are MSL's own

template <class T>
using in = device const T*;
template <class T>
using out = device T*;
template <class T>
using shared = threadgroup T*;
template <class T>
using ref = thread T&;
template <class T>
using cref = const thread T&;

#else

using uint = unsigned int;
using ushort = unsigned short;
using uchar = unsigned char;
using ulong = unsigned long;

template <class T>
using out = T*;
template <class T>
using shared = T*;
template <class T>
using ref = T&;
template <class T>
using cref = const T&;

struct atomic_uint {
  uint value;
};

#if defined(__CUDACC__)

template <class T>
using in = const T* __restrict__;
using bfloat = __nv_bfloat16;
using half = __half;

#else

template <class T>
using in = const T*;

#if defined(__clang__) && __clang_major__ < 15 && defined(__x86_64__)
struct half {  // this compiler knows no half at all
  ushort bits = 0;
  half() = default;
  explicit half(float value) : bits(float_to_half(value)) {}
  operator float() const {
    return half_to_float(bits);
  }  // NOLINT(google-explicit-constructor): as the type's own
};
#elif defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13
using half = __fp16;  // this compiler knows _Float16 only in C
#else
using half = _Float16;
#endif

struct alignas(8) uint2 {
  uint x, y;
};
struct uint3 {
  uint x, y, z;
};
struct alignas(16) uint4 {
  uint x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

template <class To, class From>
inline To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  To result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

struct bfloat {
  ushort bits = 0;
  bfloat() = default;
  explicit bfloat(float value) : bits(float_to_bf16(value)) {}
  operator float() const { return bf16_to_float(bits); }  // NOLINT(google-explicit-constructor): as in MSL
};

#endif
#endif

// What a kernel knows of its place in the grid.
struct Thread {
  uint3 group;  // threadgroup in the grid
  uint index;   // thread in the threadgroup
  uint lane;    // thread in its simdgroup, 0 to 31
  uint simd;    // simdgroup in the threadgroup
};

// Threadgroup memory of kernels that need none.
struct NoShared {
  uint none;
};

// Weights as kernels read them (weights.h): blocks of 16 rows x 256 inputs, 4-bit codes with their scales and
// biases. A matrix is [row tile][input block][plane] of them; missing rows and inputs have scale and bias
// zero.
struct WeightBlock {
  enum : uint { rows = 16, inputs = 256, groups = 4, code_bytes = 2048, bytes = 2304 };
};

// In a kernel's threadgroup memory: that blocks are on their way into tile memory (weights.h).
struct TileBarrier {
  ulong state;
};

// Of each group of 64 inputs: what one step of its integers is worth, and the sum of the rounded inputs.
struct InputGroup {
  float step, sum;
};

}  // namespace lily::gpu
