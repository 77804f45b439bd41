// The kernel dialect: one of three headers that define the same names for the metal compiler, nvcc and host
// compilers.
//
//   GPU_KERNEL(K) { .. }   the kernel of argument struct K; in the body `a` is the K, `s` its K::Shared in
//                          threadgroup memory, `t` the Thread
//   GPU_FN                 a function that kernels call
//   GPU_UNROLL             before a loop that indexes an array of registers
//
//   group_barrier simd_sync                              all threads of the threadgroup / simdgroup meet
//   simd_sum simd_max simd_min                           over the 32 lanes, float, uint and int
//   simd_shuffle_xor                                     another lane's value
//   simd_prefix_exclusive_sum simd_mask                  over uint, over bool
//   load16 store16 load4 store4 load8                    16 (8) bytes, aligned to 16 (8)
//   round_to_int                                         to the nearest, ties to even; |x| < 2^22
//   larger_magnitude                                     max(|x|, |y|), NaN if one of them is
//   quick_divide                                         x / y to a few units in the last place, y < 2^126
//   bf16_lo bf16_hi half_pack as_type                    bits
//   atomic_add atomic_get atomic_set                     relaxed
//   wait_for_previous allow_next                         overlap.h: overlap with the neighbouring dispatches
//
// All 32 lanes call a simd function together, all threads a barrier. No lambdas, swizzles, doubles, recursion
// or globals; braces build vectors. docs/adding-a-kernel.md tells which rule is checked by what.
#pragma once

#include "backend/gpu/dialect/types.h"

#if defined(__METAL_VERSION__)
#include "backend/gpu/dialect/metal.h"
#elif defined(__CUDACC__)
#include "backend/gpu/dialect/cuda.h"
#else
#include "backend/gpu/dialect/emulator.h"
#endif
#include "backend/gpu/dialect/math.h"
#include "backend/gpu/dialect/overlap.h"
