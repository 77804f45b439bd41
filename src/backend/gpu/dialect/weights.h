// Products with 4-bit weights: prefetched blocks, inputs as 16-bit integers, the dot product of a block.
//
// A block is 16 rows x 256 inputs in 2,304 bytes: 4 x 32 x 16 bytes of codes, then 32 x 8 bytes of scales and
// biases. For group i of 64 inputs, lane l = 4 g + c owns 16 bytes at i * 512 + l * 16: two words of row g,
// inputs 16 c to 16 c + 15 of the group, lowest code first, then the same of row g + 8. At 2,048 + l * 8 it
// owns scale and bias (bf16) of row g and of row g + 8 for group c. A weight of 8 bits is two planes: the low
// four bits with the scale and the bias, the high four with 16 times the scale and no bias.
//
// Inputs are quantized once per threadgroup: step = largest magnitude of the group / 32512, q = round(x /
// step), so one group's products are exact integers and `scale * step * sum(code q) + bias * sum(x)` is its
// share. 8 inputs are a uint4: high bytes of the even inputs, of the odd ones, low bytes (signed) of the
// even, of the odd, which is how the integer matrix unit reads them.
//
//   prefetch_begin(b, t)                 all threads; then the first, or after a group_barrier any lanes of
//                                        one simdgroup:
//   prefetch_tile(b, slot, from, n)        n blocks at `from` into tile memory from block `slot` on
//   prefetch_end(b)                        no more; one lane, after a simd_sync where several prefetch
//   tile_ready(b)                        all threads, after a group_barrier: all blocks of `b` are there
//   tile_block(b, slot, from)            the block prefetched from `from` into `slot`
//   prefetch_cache(from, bytes)          a hint: what a later dispatch reads may come to the cache that all
//                                        threadgroups share; a multiple of 16 bytes, at such an address
//
// A kernel that prefetches has tile_blocks, the size of its tile memory, among its enumerators. Where a
// machine has no such copy the blocks are read where they are. May begin before wait_for_previous: nobody
// writes weights.
#pragma once

#include "backend/gpu/dialect/gpu.h"

namespace lily::gpu {

#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
using block_pointer = const uchar*;
using barrier_reference = TileBarrier&;
extern __shared__ __align__(128) uchar gpu_tile_memory[];
GPU_FN uint gpu_shared_address(const void* p) { return uint(__cvta_generic_to_shared(p)); }
GPU_FN void prefetch_begin(barrier_reference b, Thread t) {
  if (t.index == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(gpu_shared_address(&b)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
}
GPU_FN void prefetch_tile(barrier_reference b, uint slot, const uchar* from, uint n) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(gpu_shared_address(&b)),
               "r"(n * WeightBlock::bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          gpu_shared_address(gpu_tile_memory + slot * WeightBlock::bytes)),
      "l"(from), "r"(n * WeightBlock::bytes), "r"(gpu_shared_address(&b))
      : "memory");
}
GPU_FN void prefetch_end(barrier_reference b) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(gpu_shared_address(&b)) : "memory");
}
GPU_FN void tile_ready(barrier_reference b) {
  asm volatile(
      "{\n.reg .pred done;\nwait: mbarrier.try_wait.parity.shared.b64 done, [%0], 0;\n@!done bra wait;\n}" ::
          "r"(gpu_shared_address(&b))
      : "memory");
}
GPU_FN block_pointer tile_block(barrier_reference, uint slot, const uchar*) {
  return gpu_tile_memory + slot * WeightBlock::bytes;
}
GPU_FN void prefetch_cache(const uchar* from, uint bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
#elif !defined(__METAL_VERSION__) && !defined(__CUDACC__)
using block_pointer = const uchar*;
using barrier_reference = TileBarrier&;
GPU_FN void prefetch_begin(barrier_reference b, Thread t) {
  if (t.index == 0) emulator::prefetch_begin(b);
}
GPU_FN void prefetch_tile(barrier_reference b, uint slot, in<uchar> from, uint n) {
  emulator::prefetch(b, slot, from, n);
}
GPU_FN void prefetch_end(barrier_reference b) { emulator::prefetch_end(b); }
GPU_FN void tile_ready(barrier_reference b) { emulator::tile_ready(b); }
GPU_FN block_pointer tile_block(barrier_reference b, uint slot, in<uchar> from) {
  return emulator::tile_block(b, slot, from);
}
GPU_FN void prefetch_cache(in<uchar> from, uint bytes) { emulator::prefetch_cache(from, bytes); }
#else
#if defined(__METAL_VERSION__)
using barrier_reference = threadgroup TileBarrier&;
#else
using barrier_reference = TileBarrier&;
#endif
using block_pointer = in<uchar>;
GPU_FN void prefetch_begin(barrier_reference, Thread) {}
GPU_FN void prefetch_tile(barrier_reference, uint, in<uchar>, uint) {}
GPU_FN void prefetch_end(barrier_reference) {}
GPU_FN void tile_ready(barrier_reference) {}
GPU_FN block_pointer tile_block(barrier_reference, uint, in<uchar> from) { return from; }
GPU_FN void prefetch_cache(in<uchar>, uint) {}
#endif

// The bytes `shift` to `shift + 7` of the four values, lowest first; shift is 0 or 8.
GPU_FN uint gather_bytes(int a, int b, int c, int d, uint shift) {
#if defined(__CUDACC__)
  uint select = shift == 0 ? 0x0040 : 0x0051;
  return __byte_perm(__byte_perm(a, b, select), __byte_perm(c, d, select), 0x5410);
#else
  return (uint(a) >> shift & 255u) | (uint(b) >> shift & 255u) << 8 | (uint(c) >> shift & 255u) << 16 |
         (uint(d) >> shift & 255u) << 24;
#endif
}

// Quantizes inputs 8 e to 8 e + 7, which this lane holds in x; the 8 lanes of a group of 64 are neighbours,
// and all 32 lanes call this together. codes [inputs / 8], groups [inputs / 64]. With sums_up, `sum` becomes
// its sum over the simdgroup: lanes exchange it and the rest together, which costs no time of its own.
template <bool sums_up>
GPU_FN void quantize_inputs(cref<float[8]> x, shared<uint4> codes, shared<InputGroup> groups, uint e,
                            ref<float> sum) {
  float largest =
      larger_magnitude(larger_magnitude(larger_magnitude(x[0], x[1]), larger_magnitude(x[2], x[3])),
                       larger_magnitude(larger_magnitude(x[4], x[5]), larger_magnitude(x[6], x[7])));
  GPU_UNROLL for (uint mask = 1; mask < 8; mask <<= 1) {
    float other = simd_shuffle_xor(largest, mask);
    if (sums_up) sum += simd_shuffle_xor(sum, mask);
    largest = larger_magnitude(largest, other);
  }
  float inverse = quick_divide(32512.0f, max(largest, 1e-30f));
  int q[8], high[8], total = 0;
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    q[i] = round_to_int(x[i] * inverse);
    high[i] = q[i] + 128;  // so that the low byte may be read as signed
    total += q[i];
  }
  GPU_UNROLL for (uint mask = 1; mask < 8; mask <<= 1) {
    int other = simd_shuffle_xor(total, mask);
    if (sums_up && mask < 4) sum += simd_shuffle_xor(sum, mask * 8);
    total += other;
  }
  codes[e] = uint4{gather_bytes(high[0], high[2], high[4], high[6], 8),
                   gather_bytes(high[1], high[3], high[5], high[7], 8),
                   gather_bytes(q[0], q[2], q[4], q[6], 0), gather_bytes(q[1], q[3], q[5], q[7], 0)};
  if ((e & 7) == 0) {
    float step = largest * (1.0f / 32512.0f);
    groups[e >> 3].step = step;
    groups[e >> 3].sum = step * float(total);
  }
}
GPU_FN void quantize_inputs(cref<float[8]> x, shared<uint4> codes, shared<InputGroup> groups, uint e) {
  float none;
  quantize_inputs<false>(x, codes, groups, e, none);
}

// A lane's share of a block.
struct BlockCodes {
  uint4 w[4];
  uint2 factors;
};
GPU_FN BlockCodes load_block(block_pointer block, uint lane) {
  BlockCodes r;
  GPU_UNROLL for (uint i = 0; i < 4; ++i) r.w[i] = load16(block + i * 512 + lane * 16);
  r.factors = load8(block + WeightBlock::code_bytes + lane * 8);
  return r;
}

#if defined(__CUDACC__) && defined(__CUDA_ARCH__)
// A lane's share of the inputs of one block: operands of the integer matrix unit, whose eight columns are the
// high and low bytes of the four groups.
struct BlockInputs {
  uint operand[4][2][2];
  float step, sum;  // of group lane % 4
};
GPU_FN BlockInputs block_inputs(const uint4* codes, const InputGroup* groups, uint block, uint lane) {
  BlockInputs r;
  uint column = lane >> 2, c = lane & 3;
  GPU_UNROLL for (uint j = 0; j < 2; ++j) {
    uint2 v = reinterpret_cast<const uint2*>(
        codes)[((block * 4 + (column >> 1)) * 8 + 2 * c + j) * 2 + (column & 1)];
    GPU_UNROLL for (uint i = 0; i < 4; ++i) {
      r.operand[i][j][0] = i == column >> 1 ? v.x : 0u;
      r.operand[i][j][1] = i == column >> 1 ? v.y : 0u;
    }
  }
  r.step = groups[block * 4 + c].step;
  r.sum = groups[block * 4 + c].sum;
  return r;
}
// clang-format off
GPU_FN void gpu_integer_product(int (&c)[4], uint a0, uint a1, uint a2, uint a3, uint b0, uint b1) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// clang-format on
// The integer sums of group lane % 4 for rows lane / 4 and lane / 4 + 8.
GPU_FN void block_sums(cref<BlockCodes> block, cref<BlockInputs> x, uint lane, ref<int> low_row,
                       ref<int> high_row) {
  const uint mask = 0x0f0f0f0fu;
  int sums[4] = {0, 0, 0, 0};
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    uint4 w = block.w[i];
    gpu_integer_product(sums, w.x & mask, w.z & mask, w.x >> 4 & mask, w.z >> 4 & mask, x.operand[i][0][0],
                        x.operand[i][0][1]);
    gpu_integer_product(sums, w.y & mask, w.w & mask, w.y >> 4 & mask, w.w >> 4 & mask, x.operand[i][1][0],
                        x.operand[i][1][1]);
  }
  low_row = sums[0] * 256 + sums[1];
  high_row = sums[2] * 256 + sums[3];
}
#else
// A lane's share of the inputs of one block: inputs 16 c to 16 c + 15 of each group, c = lane % 4, as whole
// numbers.
struct BlockInputs {
  float x[64];
  float step, sum;  // of group c
};
GPU_FN BlockInputs block_inputs(shared<uint4> codes, shared<InputGroup> groups, uint block, uint lane) {
  BlockInputs r;
  uint c = lane & 3;
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    uint4 v = codes[(block * 4 + i / 2) * 8 + 2 * c + i % 2];
    GPU_UNROLL for (uint j = 0; j < 4; ++j) {
      uint shift = 24 - 8 * j;
      r.x[i * 8 + 2 * j] = float((int(v.x << shift) >> 24) * 256 + (int(v.z << shift) >> 24));
      r.x[i * 8 + 2 * j + 1] = float((int(v.y << shift) >> 24) * 256 + (int(v.w << shift) >> 24));
    }
  }
  r.step = groups[block * 4 + c].step;
  r.sum = groups[block * 4 + c].sum;
  return r;
}
// 16 products of a code and an input: at most 15 * 32512 * 16 < 2^24, so this float sum is exact.
GPU_FN int row_sum(uint first, uint second, cref<float[64]> x, uint at) {
  float sum = 0.0f;
  GPU_UNROLL for (uint j = 0; j < 8; ++j) sum += float(first >> (4 * j) & 15u) * x[at + j];
  GPU_UNROLL for (uint j = 0; j < 8; ++j) sum += float(second >> (4 * j) & 15u) * x[at + 8 + j];
  return int(sum);
}
// Adds over the four lanes of a quad; lane c keeps the sum of group c.
GPU_FN int keep_own_group(cref<int[4]> sums, uint c) {
  int pair[2];
  GPU_UNROLL for (uint m = 0; m < 2; ++m) {
    int keep = (c & 1) == 1 ? sums[2 * m + 1] : sums[2 * m],
        send = (c & 1) == 1 ? sums[2 * m] : sums[2 * m + 1];
    pair[m] = keep + simd_shuffle_xor(send, 1);
  }
  int keep = (c & 2) == 2 ? pair[1] : pair[0], send = (c & 2) == 2 ? pair[0] : pair[1];
  return keep + simd_shuffle_xor(send, 2);
}
GPU_FN void block_sums(cref<BlockCodes> block, cref<BlockInputs> x, uint lane, ref<int> low_row,
                       ref<int> high_row) {
  int low[4], high[4];
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    uint4 w = block.w[i];
    low[i] = row_sum(w.x, w.y, x.x, i * 16);
    high[i] = row_sum(w.z, w.w, x.x, i * 16);
  }
  low_row = keep_own_group(low, lane & 3);
  high_row = keep_own_group(high, lane & 3);
}
#endif

// The product of a block with its inputs: lane 4 g gets the sum of row g, lane 4 g + 1 that of row g + 8 (and
// lanes 4 g + 2, 4 g + 3 the same two again). All 32 lanes together.
GPU_FN float dot_block(cref<BlockCodes> block, cref<BlockInputs> x, uint lane) {
  int low, high;
  block_sums(block, x, lane, low, high);
  float a = bf16_lo(block.factors.x) * (x.step * float(low)) + bf16_hi(block.factors.x) * x.sum;
  float b = bf16_lo(block.factors.y) * (x.step * float(high)) + bf16_hi(block.factors.y) * x.sum;
  bool odd = (lane & 1) == 1;
  float sum = (odd ? b : a) + simd_shuffle_xor(odd ? a : b, 1);
  return sum + simd_shuffle_xor(sum, 2);
}

GPU_FN float dot_block(block_pointer block, cref<BlockInputs> x, uint lane) {
  return dot_block(load_block(block, lane), x, lane);
}

}  // namespace lily::gpu
