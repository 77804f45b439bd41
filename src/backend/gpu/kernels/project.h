// Products of one token row with matrices of weight blocks.
#pragma once
#include "backend/gpu/kernels/args/project.h"
#include "backend/gpu/kernels/products.h"

using namespace lily::gpu;

GPU_KERNEL(NormProject) {
  const uint simds = NormProject::threads / 32;
  uint blocks = blocks_of(a.inputs), parts = blocks * a.planes;
  uint more = a.tiles - a.each * a.groups, tile = first_tile(t.group.x, a.each, more),
       count = a.each + (t.group.x < more ? 1 : 0);
  in<uchar> weights = a.weights + ulong(tile) * parts * WeightBlock::bytes;
  allow_next();
  prefetch_tiles(s.barrier, weights, count * parts, t);
  Task task = first_task(t.simd, parts);
  InputFactors factors = load_factors(a.factor, a.inputs, t.index);
  wait_for_previous();
  prepare_normed(a.x + ulong(t.group.y) * a.inputs, factors, a.inputs, t, s.codes, s.groups, s.squares);
  group_barrier();
  LoadedInputs x = load_part(task.part, a.planes, s.codes, s.groups, t.lane);
  multiply_tiles(s.barrier, task, 0, weights, weights + parts * WeightBlock::bytes, count, parts, a.planes,
                 simds, t, x, s.codes, s.groups, s.sums, 0);
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  group_barrier();
  if (t.index < count * 64) {  // four lanes a row
    float sum = take_sum(s.sums, t.index / 4, parts, t.lane) * scale;
    if ((t.lane & 3) == 0) a.y[ulong(t.group.y) * a.y_stride + tile * 16 + t.index / 4] = sum;
  }
}

GPU_KERNEL(HeadProject) {
  const uint simds = HeadProject::threads / 32;
  uint blocks = blocks_of(a.inputs), tiles = (a.rows + 15) / 16;
  uint tile = min(t.group.x * simds + t.simd, tiles - 1), tile_bytes = blocks * a.planes * WeightBlock::bytes;
  BlockCodes block = load_block(a.weights + ulong(tile) * tile_bytes, t.lane);
  InputFactors factors = load_factors(a.factor, a.inputs, t.index);
  allow_next();
  wait_for_previous();
  prepare_long(a.x + ulong(t.group.y) * a.inputs, a.factor, factors, a.inputs, HeadProject::threads, t,
               s.codes, s.groups, s.squares);
  group_barrier();
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  for (tile = t.group.x * simds + t.simd; tile < tiles; tile += a.groups * simds) {
    in<uchar> weights = a.weights + ulong(tile) * tile_bytes;
    in<uchar> next = a.weights + ulong(min(tile + a.groups * simds, tiles - 1)) * tile_bytes;
    float sum = tile_product(weights, next, block, blocks, a.planes, s.codes, s.groups, t.lane);
    uint row = tile * 16 + (t.lane >> 2) + (t.lane & 3) * 8;
    if ((t.lane & 3) < 2 && row < a.rows) a.y[ulong(t.group.y) * a.rows + row] = sum * scale;
  }
}

GPU_KERNEL(AddProject) {
  const uint simds = AddProject::threads / 32;
  uint blocks = blocks_of(a.inputs), parts = blocks * a.planes;
  uint more = a.tiles - a.each * a.groups, tile = first_tile(t.group.x, a.each, more),
       count = a.each + (t.group.x < more ? 1 : 0);
  in<uchar> weights = a.weights + ulong(tile) * parts * WeightBlock::bytes;
  allow_next();
  prefetch_tiles(s.barrier, weights, count * parts, t);
  Task task = first_task(t.simd, parts);
  wait_for_previous();
  // Read early, so that nothing waits for it in the end.
  uint row = tile * 16 + t.index / 4;
  bool writes = t.index < count * 64 && (t.lane & 3) == 0 && row < a.rows;
  float residual = writes ? a.residual[ulong(t.group.y) * a.rows + row] : 0.0f;
  if (t.index < blocks * 32) {
    float v[8];
    load_inputs(a.x + ulong(t.group.y) * a.inputs, a.inputs, t.index, v);
    quantize_inputs(v, s.codes, s.groups, t.index);
  }
  group_barrier();
  LoadedInputs x = load_part(task.part, a.planes, s.codes, s.groups, t.lane);
  multiply_tiles(s.barrier, task, 0, weights, weights + parts * WeightBlock::bytes, count, parts, a.planes,
                 simds, t, x, s.codes, s.groups, s.sums, 0);
  group_barrier();
  if (t.index < count * 64) {
    float sum = take_sum(s.sums, t.index / 4, parts, t.lane);
    if (writes) a.residual[ulong(t.group.y) * a.rows + row] = residual + sum;
  }
}

GPU_KERNEL(AddGatedProject) {
  const uint simds = AddGatedProject::threads / 32;
  uint blocks = blocks_of(a.inputs), parts = blocks * a.planes;
  uint more = a.tiles - a.each * a.groups, tile = first_tile(t.group.x, a.each, more),
       count = a.each + (t.group.x < more ? 1 : 0);
  in<uchar> weights = a.weights + ulong(tile) * parts * WeightBlock::bytes;
  allow_next();
  prefetch_tiles(s.barrier, weights, count * parts, t);
  Task task = first_task(t.simd, parts);
  // What o is multiplied by is ready before o is.
  uint e = t.index;
  bool prepares = e < blocks * 32;
  float gate[8];
  if (prepares) {
    float weight[8];
    load_inputs(a.z + ulong(t.group.y) * a.z_stride, a.inputs, e, gate);
    load_inputs(a.norm, AddGatedProject::head, e & 15, weight);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) gate[i] = weight[i] * silu(gate[i]);
  }
  wait_for_previous();
  uint row = tile * 16 + t.index / 4;
  bool writes = t.index < count * 64 && (t.lane & 3) == 0 && row < a.rows;
  float residual = writes ? a.residual[ulong(t.group.y) * a.rows + row] : 0.0f;
  if (prepares) {
    float o[8], sum = 0.0f;
    load_inputs(a.o + ulong(t.group.y) * a.inputs, a.inputs, e, o);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) sum += o[i] * o[i];
    GPU_UNROLL for (uint mask = 1; mask < 16; mask <<= 1) sum +=
        simd_shuffle_xor(sum, mask);  // 16 lanes a head
    float scale = rsqrt(sum / float(AddGatedProject::head) + a.eps);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) o[i] = o[i] * scale * gate[i];
    quantize_inputs(o, s.codes, s.groups, e);
  }
  group_barrier();
  LoadedInputs x = load_part(task.part, a.planes, s.codes, s.groups, t.lane);
  multiply_tiles(s.barrier, task, 0, weights, weights + parts * WeightBlock::bytes, count, parts, a.planes,
                 simds, t, x, s.codes, s.groups, s.sums, 0);
  group_barrier();
  if (t.index < count * 64) {
    float sum = take_sum(s.sums, t.index / 4, parts, t.lane);
    if (writes) a.residual[ulong(t.group.y) * a.rows + row] = residual + sum;
  }
}
