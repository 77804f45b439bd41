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
    load_eight(x + e * 8, v);
  } else {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) v[i] = 0.0f;
  }
}

GPU_FN uint blocks_of(uint inputs) { return (inputs + WeightBlock::inputs - 1) / WeightBlock::inputs; }

// The factors of the inputs that a thread prepares first. They are asked for before wait_for_previous: nobody
// writes them, and they come from further away than the row, which was written just now.
struct InputFactors {
  float v[8];
};
GPU_FN InputFactors load_factors(in<float> factor, uint inputs, uint e) {
  InputFactors r;
  load_inputs(factor, inputs, e, r.v);
  return r;
}

// Quantizes part e of x * factor and returns the simdgroup's sum of x^2. All its lanes together.
GPU_FN float prepare_part(in<float> x, cref<InputFactors> factors, uint inputs, uint e, shared<uint4> codes,
                          shared<InputGroup> groups) {
  float v[8], sum = 0.0f;
  load_inputs(x, inputs, e, v);
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    sum += v[i] * v[i];
    v[i] *= factors.v[i];
  }
  quantize_inputs<true>(v, codes, groups, e, sum);
  return sum;
}

// Quantizes x * factor, a part a thread; the sum of a simdgroup's x^2 goes to its place in `squares`. Whole
// simdgroups have a part or none, since the padded row has a multiple of 32.
GPU_FN void prepare_normed(in<float> x, cref<InputFactors> factors, uint inputs, Thread t,
                           shared<uint4> codes, shared<InputGroup> groups, shared<float> squares) {
  float sum = 0.0f;
  if (t.index < blocks_of(inputs) * 32) sum = prepare_part(x, factors, inputs, t.index, codes, groups);
  if (t.lane == 0) squares[t.simd] = sum;
}

// The same for threadgroups with fewer threads than parts.
GPU_FN void prepare_long(in<float> x, in<float> factor, cref<InputFactors> first, uint inputs, uint threads,
                         Thread t, shared<uint4> codes, shared<InputGroup> groups, shared<float> squares) {
  float sum = 0.0f;
  if (t.index < blocks_of(inputs) * 32) sum = prepare_part(x, first, inputs, t.index, codes, groups);
  for (uint e = t.index + threads; e < blocks_of(inputs) * 32; e += threads) {
    sum += prepare_part(x, load_factors(factor, inputs, e), inputs, e, codes, groups);
  }
  if (t.lane == 0) squares[t.simd] = sum;
}

// 1 / sqrt(mean(x^2) + eps), after a barrier; the same order of additions in every lane. `simds` is a
// multiple of 4.
GPU_FN float inverse_rms(shared<float> squares, uint simds, uint inputs, float eps) {
  float4 sum = load4(squares);
  for (uint i = 4; i < simds; i += 4) sum = sum + load4(squares + i);
  return rsqrt(((sum.x + sum.y) + (sum.z + sum.w)) / float(inputs) + eps);
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

// A threadgroup's share of blocks that a later dispatch reads, on their way to the cache; by one simdgroup.
GPU_FN void prefetch_share(in<uchar> from, uint blocks, uint group, uint groups, uint lane) {
  const uint pieces = 8;  // of a share
  uint each = (blocks + groups * pieces - 1) / (groups * pieces), first = (group * pieces + lane) * each;
  if (lane < pieces && first < blocks) {
    prefetch_cache(from + ulong(first) * WeightBlock::bytes, min(each, blocks - first) * WeightBlock::bytes);
  }
}

// Where a simdgroup begins: the blocks of a run of tiles are spread over the simdgroups. Worked out before
// wait_for_previous, and without a division, which takes as long as half a product.
struct Task {
  uint tile, part;
};
GPU_FN Task first_task(uint simd, uint parts) {
  Task r = Task{0, simd};
  for (; r.part >= parts; r.part -= parts) ++r.tile;
  return r;
}

// A simdgroup's inputs of one block: its next tasks mostly have the same.
struct LoadedInputs {
  BlockInputs x;
  uint block;
};
GPU_FN LoadedInputs load_part(uint part, uint planes, shared<uint4> codes, shared<InputGroup> groups,
                              uint lane) {
  LoadedInputs r;
  r.block = part >> (planes - 1);  // planes is 1 or 2
  r.x = block_inputs(codes, groups, r.block, lane);
  return r;
}

// The products of `count` tiles, prefetched from slot `slot` on: the first tile's `parts` blocks lie at
// `first`, those of the others at `others`, below each other. The sums go to tile `sums_tile` and on.
// `loaded` holds the inputs of some block, and does so afterwards.
GPU_FN void multiply_tiles(barrier_reference barrier, Task task, uint slot, in<uchar> first, in<uchar> others,
                           uint count, uint parts, uint planes, uint simds, Thread t,
                           ref<LoadedInputs> loaded, shared<uint4> codes, shared<InputGroup> groups,
                           shared<float> sums, uint sums_tile) {
  tile_ready(barrier);
  for (slot += t.simd; task.tile < count; slot += simds) {
    if (task.part >> (planes - 1) != loaded.block) {
      loaded = load_part(task.part, planes, codes, groups, t.lane);
    }
    in<uchar> from = (task.tile == 0 ? first : others + ulong(task.tile - 1) * parts * WeightBlock::bytes) +
                     task.part * WeightBlock::bytes;
    float sum = dot_block(tile_block(barrier, slot, from), loaded.x, t.lane);
    put_sum(sums, sums_tile + task.tile, parts, task.part, sum, t.lane);
    for (task.part += simds; task.part >= parts; task.part -= parts) ++task.tile;
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

// The first row tile of a threadgroup, where each has `each` and the first `more` have one more.
GPU_FN uint first_tile(uint group, uint each, uint more) { return group * each + min(group, more); }

}  // namespace lily::gpu
