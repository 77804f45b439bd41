// Hopper's asynchronous matrix products and copies into shared memory, one instruction each.
//
//   Product<n>::add(c, a, right)          c [64][n] += left operand in registers * right operand
//   Product<n>::set(c, left, right, add)  c = or += left operand * right operand, both in shared memory
//
// A warpgroup of 128 threads calls them together. c and a may not be touched between begin_products and the
// wait_products that covers them. `right` has a row per output (outer_rows), or with add_inner a row per
// input (inner_rows). Halves are multiplied, floats summed.
#pragma once

#include "backend/gpu/cuda/kernels/layout.h"
#include "backend/gpu/dialect/gpu.h"

// A body for the kernel of argument struct K, of which `a` is one; a multiprocessor has room for kBlocks
// blocks.
#define LILY_HOPPER_KERNEL(K, kThreads, kBlocks) \
  extern "C" __global__ void __launch_bounds__(kThreads, kBlocks) K##_hopper(const __grid_constant__ K a)

namespace lily::gpu::hopper {

extern __shared__ __align__(1024) uchar hopper_memory[];

GPU_FN uint shared_address(const void* p) { return uint(__cvta_generic_to_shared(p)); }

GPU_FN void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
GPU_FN void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most kPending committed groups are unfinished.
template <uint kPending>
GPU_FN void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// 16 bytes into shared memory, zeros where not `real`; nothing at all without `live`. Predicates, because
// ptxas serializes products across branches. Memory brings whole lines: decode behind 131,072 tokens 583 ->
// 591 and 590 -> 594 tok/s, with an 8-bit cache 693 -> 698.
GPU_FN void copy_chunk(uint to, const void* from, bool live, bool real = true) {
  asm volatile(
      "{\n.reg .pred live;\nsetp.ne.b32 live, %3, 0;\n@live cp.async.cg.shared.global.L2::128B [%0], [%1], "
      "16, "
      "%2;\n}" ::"r"(to),
      "l"(from), "r"(real ? 16u : 0u), "r"(uint(live))
      : "memory");
}
GPU_FN void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <uint kPending>
GPU_FN void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
// What this thread wrote to shared memory becomes visible to the matrix unit; a barrier follows.
GPU_FN void publish_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// clang-format off
#define LILY_C4(c, i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define LILY_C8(c, i) LILY_C4(c, i), LILY_C4(c, i + 4)
#define LILY_C32(c, i) LILY_C8(c, i), LILY_C8(c, i + 8), LILY_C8(c, i + 16), LILY_C8(c, i + 24)

template <uint kColumns>
struct Product;

template <>
struct Product<16> {
  static __device__ __forceinline__ void add(float (&c)[8], const uint (&a)[4], ulong right) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7"
                 "}, {%8,%9,%10,%11}, %12, 1, 1, 1, 0;"
                 : LILY_C8(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
  }
};
template <>
struct Product<32> {
  static __device__ __forceinline__ void add(float (&c)[16], const uint (&a)[4], ulong right) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
                 "}, {%16,%17,%18,%19}, %20, 1, 1, 1, 0;"
                 : LILY_C8(c, 0), LILY_C8(c, 8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
  }
};
template <>
struct Product<64> {
  static __device__ __forceinline__ void add(float (&c)[32], const uint (&a)[4], ulong right) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
                 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
                 : LILY_C32(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
  }
  static __device__ __forceinline__ void set(float (&c)[32], ulong left, ulong right, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
                 "}, %32, %33, p, 1, 1, 0, 0;\n}"
                 : LILY_C32(c, 0)
                 : "l"(left), "l"(right), "r"(uint(add)));
  }
};
template <>
struct Product<80> {
  static __device__ __forceinline__ void set(float (&c)[40], ulong left, ulong right, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %42, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n80k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39"
                 "}, %40, %41, p, 1, 1, 0, 0;\n}"
                 : LILY_C32(c, 0), LILY_C8(c, 32)
                 : "l"(left), "l"(right), "r"(uint(add)));
  }
};
template <>
struct Product<128> {
  static __device__ __forceinline__ void add(float (&c)[64], const uint (&a)[4], ulong right) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
                 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
                 : LILY_C32(c, 0), LILY_C32(c, 32)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
  }
};
template <>
struct Product<256> {
  static __device__ __forceinline__ void add_inner(float (&c)[128], const uint (&a)[4], ulong right) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
                 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                 "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
                 "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
                 "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
                 "}, {%128,%129,%130,%131}, %132, 1, 1, 1, 1;"
                 : LILY_C32(c, 0), LILY_C32(c, 32), LILY_C32(c, 64), LILY_C32(c, 96)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(right));
  }
};
#undef LILY_C32
#undef LILY_C8
#undef LILY_C4
// clang-format on

}  // namespace lily::gpu::hopper
