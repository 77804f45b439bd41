// Products of one token row with matrices of weight blocks: how the row is prepared, how sums are put
// together.
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
GPU_FN float take_sum(shared<float> sums, uint row, uint blocks) {
  float sum = 0.0f;
  for (uint i = 0; i < blocks; ++i) sum += sums[row * (blocks + 1) + i];
  return sum;
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

// The product of one tile that is read where it is; which lane gets which row is dot_block's affair.
GPU_FN float tile_product(in<uchar> weights, uint blocks, uint planes, shared<uint4> codes,
                          shared<InputGroup> groups, uint lane) {
  float sum = 0.0f;
  for (uint block = 0; block < blocks; ++block) {
    BlockInputs x = block_inputs(codes, groups, block, lane);
    for (uint plane = 0; plane < planes; ++plane) {
      sum += dot_block(weights + ulong(block * planes + plane) * WeightBlock::bytes, x, lane);
    }
  }
  return sum;
}

// The row tiles of threadgroup g of n.
GPU_FN uint first_tile(uint g, uint n, uint tiles) { return uint(ulong(g) * tiles / n); }

}  // namespace lily::gpu

GPU_KERNEL(NormProject) {
  const uint simds = NormProject::threads / 32;
  uint blocks = blocks_of(a.inputs), parts = blocks * a.planes;
  uint tile = first_tile(t.group.x, a.groups, a.tiles),
       count = first_tile(t.group.x + 1, a.groups, a.tiles) - tile;
  in<uchar> weights = a.weights + ulong(tile) * parts * WeightBlock::bytes;
  allow_next();
  prefetch_tiles(s.barrier, weights, count * parts, t);
  wait_for_previous();
  prepare_normed(a.x + ulong(t.group.y) * a.inputs, a.factor, a.inputs, NormProject::threads, t, s.codes,
                 s.groups, s.squares);
  group_barrier();
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  tile_ready(s.barrier);
  multiply_tiles(tile_block(s.barrier, 0, weights), count, blocks, a.planes, simds, t, s.codes, s.groups,
                 s.sums);
  group_barrier();
  if (t.index < count * 16) {
    a.y[ulong(t.group.y) * a.y_stride + tile * 16 + t.index] = take_sum(s.sums, t.index, parts) * scale;
  }
}

GPU_KERNEL(HeadProject) {
  const uint simds = HeadProject::threads / 32;
  uint blocks = blocks_of(a.inputs), tiles = (a.rows + 15) / 16;
  allow_next();
  wait_for_previous();
  prepare_normed(a.x + ulong(t.group.y) * a.inputs, a.factor, a.inputs, HeadProject::threads, t, s.codes,
                 s.groups, s.squares);
  group_barrier();
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  for (uint tile = t.group.x * simds + t.simd; tile < tiles; tile += a.groups * simds) {
    in<uchar> weights = a.weights + ulong(tile) * blocks * a.planes * WeightBlock::bytes;
    float sum = tile_product(weights, blocks, a.planes, s.codes, s.groups, t.lane);
    uint row = tile * 16 + (t.lane >> 2) + (t.lane & 3) * 8;
    if ((t.lane & 3) < 2 && row < a.rows) a.y[ulong(t.group.y) * a.rows + row] = sum * scale;
  }
}

GPU_KERNEL(AddProject) {
  const uint simds = AddProject::threads / 32;
  uint blocks = blocks_of(a.inputs), parts = blocks * a.planes;
  uint tile = first_tile(t.group.x, a.groups, a.tiles),
       count = first_tile(t.group.x + 1, a.groups, a.tiles) - tile;
  in<uchar> weights = a.weights + ulong(tile) * parts * WeightBlock::bytes;
  allow_next();
  prefetch_tiles(s.barrier, weights, count * parts, t);
  wait_for_previous();
  for (uint e = t.index; e < blocks * 32; e += AddProject::threads) {
    float v[8];
    load_inputs(a.x + ulong(t.group.y) * a.inputs, a.inputs, e, v);
    quantize_inputs(v, s.codes, s.groups, e);
  }
  group_barrier();
  tile_ready(s.barrier);
  multiply_tiles(tile_block(s.barrier, 0, weights), count, blocks, a.planes, simds, t, s.codes, s.groups,
                 s.sums);
  group_barrier();
  uint row = tile * 16 + t.index;
  if (t.index < count * 16 && row < a.rows) {
    a.residual[ulong(t.group.y) * a.rows + row] += take_sum(s.sums, t.index, parts);
  }
}

GPU_KERNEL(AddGatedProject) {
  const uint simds = AddGatedProject::threads / 32;
  uint blocks = blocks_of(a.inputs), parts = blocks * a.planes;
  uint tile = first_tile(t.group.x, a.groups, a.tiles),
       count = first_tile(t.group.x + 1, a.groups, a.tiles) - tile;
  in<uchar> weights = a.weights + ulong(tile) * parts * WeightBlock::bytes;
  allow_next();
  prefetch_tiles(s.barrier, weights, count * parts, t);
  wait_for_previous();
  for (uint e = t.index; e < blocks * 32; e += AddGatedProject::threads) {
    float o[8], z[8], weight[8], sum = 0.0f;
    load_inputs(a.o + ulong(t.group.y) * a.inputs, a.inputs, e, o);
    load_inputs(a.z + ulong(t.group.y) * a.z_stride, a.inputs, e, z);
    load_inputs(a.norm, AddGatedProject::head, e & 15, weight);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) sum += o[i] * o[i];
    GPU_UNROLL for (uint mask = 1; mask < 16; mask <<= 1) sum +=
        simd_shuffle_xor(sum, mask);  // 16 lanes a head
    float scale = rsqrt(sum / float(AddGatedProject::head) + a.eps);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) o[i] = o[i] * scale * weight[i] * silu(z[i]);
    quantize_inputs(o, s.codes, s.groups, e);
  }
  group_barrier();
  tile_ready(s.barrier);
  multiply_tiles(tile_block(s.barrier, 0, weights), count, blocks, a.planes, simds, t, s.codes, s.groups,
                 s.sums);
  group_barrier();
  uint row = tile * 16 + t.index;
  if (t.index < count * 16 && row < a.rows) {
    a.residual[ulong(t.group.y) * a.rows + row] += take_sum(s.sums, t.index, parts);
  }
}
