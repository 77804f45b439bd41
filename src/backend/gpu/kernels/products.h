// What products of a token row with matrices of weight blocks share: how the row is prepared, how sums are
// put together.
#pragma once
#include "backend/gpu/dialect/weights.h"
#include "backend/gpu/kernels/args/project.h"

using namespace lily::gpu;

namespace lily::gpu {

// Inputs 8 e to 8 e + 7, zero beyond the row.
GPU_FN void load_inputs(in<float> x, uint inputs, uint e, ref<float[8]> v) {
  if (e * 8 < inputs) {
    float4 p = load4(x + e * 8), q = load4(x + e * 8 + 4);
    v[0] = p.x;
    v[1] = p.y;
    v[2] = p.z;
    v[3] = p.w;
    v[4] = q.x;
    v[5] = q.y;
    v[6] = q.z;
    v[7] = q.w;
  } else {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) v[i] = 0.0f;
  }
}

GPU_FN uint blocks_of(uint inputs) { return (inputs + WeightBlock::inputs - 1) / WeightBlock::inputs; }

// Quantizes x * factor; the sum of this lane's x^2 goes to the simdgroup's place in `squares`. Whole
// simdgroups work on or leave out a round, since the padded row has a multiple of 32 parts.
GPU_FN void prepare_normed(in<float> x, in<float> factor, uint inputs, uint threads, Thread t,
                           shared<uint4> codes, shared<InputGroup> groups, shared<float> squares) {
  float sum = 0.0f;
  for (uint e = t.index; e < blocks_of(inputs) * 32; e += threads) {
    float v[8], f[8];
    load_inputs(x, inputs, e, v);
    load_inputs(factor, inputs, e, f);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      sum += v[i] * v[i];
      v[i] *= f[i];
    }
    quantize_inputs(v, codes, groups, e);
  }
  sum = simd_sum(sum);
  if (t.lane == 0) squares[t.simd] = sum;
}

// 1 / sqrt(mean(x^2) + eps), after a barrier; the same order of additions in every lane.
GPU_FN float inverse_rms(shared<float> squares, uint simds, uint inputs, float eps) {
  float sum = 0.0f;
  for (uint i = 0; i < simds; ++i) sum += squares[i];
  return rsqrt(sum / float(inputs) + eps);
}

// Where the sums of a tile's blocks meet: [row][block], an odd number of floats apart where it matters.
GPU_FN void put_sum(shared<float> sums, uint tile, uint blocks, uint block, float sum, uint lane) {
  if ((lane & 3) < 2) sums[(tile * 16 + (lane >> 2) + (lane & 3) * 8) * (blocks + 1) + block] = sum;
}
// The sum of a row, by the four lanes of a quad together; whole simdgroups call this.
GPU_FN float take_sum(shared<float> sums, uint row, uint blocks, uint lane) {
  float sum = 0.0f;
  for (uint i = lane & 3; i < blocks; i += 4) sum += sums[row * (blocks + 1) + i];
  sum += simd_shuffle_xor(sum, 1);
  return sum + simd_shuffle_xor(sum, 2);
}

// One run of blocks into tile memory.
GPU_FN void prefetch_tiles(barrier_reference barrier, in<uchar> weights, uint blocks, Thread t) {
  prefetch_begin(barrier, t);
  if (t.index == 0) {
    prefetch_tile(barrier, 0, weights, blocks);
    prefetch_end(barrier);
  }
}

// The products of `count` prefetched tiles, `blocks` input blocks in `planes` planes each, spread over the
// simdgroups. A simdgroup mostly stays with one input block, so that it reads its inputs once.
GPU_FN void multiply_tiles(block_pointer first, uint count, uint blocks, uint planes, uint simds, Thread t,
                           shared<uint4> codes, shared<InputGroup> groups, shared<float> sums) {
  uint parts = blocks * planes, loaded = ~0u;
  BlockInputs x;
  for (uint task = t.simd; task < count * parts; task += simds) {
    uint tile = task / parts, part = task % parts, block = part / planes;
    if (block != loaded) x = block_inputs(codes, groups, block, t.lane);
    loaded = block;
    float sum = dot_block(first + ulong(task) * WeightBlock::bytes, x, t.lane);
    put_sum(sums, tile, parts, part, sum, t.lane);
  }
}

// The product of one tile that is read where it is; which lane gets which row is dot_block's affair. `block`
// is this lane's share of its first block and then of the first at `next`: memory is asked for a block while
// the one before it is multiplied.
GPU_FN float tile_product(in<uchar> weights, in<uchar> next, ref<BlockCodes> block, uint blocks, uint planes,
                          shared<uint4> codes, shared<InputGroup> groups, uint lane) {
  float sum = 0.0f;
  for (uint i = 0; i < blocks; ++i) {
    BlockInputs x = block_inputs(codes, groups, i, lane);
    for (uint plane = 0; plane < planes; ++plane) {
      uint following = i * planes + plane + 1;
      BlockCodes now = block;
      block = load_block(following < blocks * planes ? weights + ulong(following) * WeightBlock::bytes : next,
                         lane);
      sum += dot_block(now, x, lane);
    }
  }
  return sum;
}

// The row tiles of threadgroup g of n.
GPU_FN uint first_tile(uint g, uint n, uint tiles) { return uint(ulong(g) * tiles / n); }

}  // namespace lily::gpu
