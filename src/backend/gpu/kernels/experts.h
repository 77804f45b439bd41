// The mixture of experts for one token at a time.
#pragma once
#include "backend/gpu/kernels/args/experts.h"
#include "backend/gpu/kernels/choose.h"
#include "backend/gpu/kernels/products.h"

using namespace lily::gpu;

namespace lily::gpu {

// Where the blocks of a row tile of an expert's gate or up begin.
GPU_FN ulong pair_offset(uint expert, uint tile, uint tiles, uint parts) {
  return (ulong(expert) * tiles + tile) * parts * WeightBlock::bytes;
}

// The blocks of a row tile of the down projection of a slot.
GPU_FN in<uchar> down_tile(in<uchar> down, in<uchar> shared_down, shared<uint> expert, uint slot, uint picks,
                           uint tile, uint tiles, uint parts, uint shared_parts) {
  if (slot < picks) return down + (ulong(expert[slot]) * tiles + tile) * parts * WeightBlock::bytes;
  return shared_down + ulong(tile) * shared_parts * WeightBlock::bytes;
}

}  // namespace lily::gpu

GPU_KERNEL(RouterProject) {
  const uint simds = RouterProject::threads / 32;
  bool routes = t.group.x < a.tiles;
  uint blocks = blocks_of(a.inputs), planes = routes ? a.router_planes : a.planes, parts = blocks * planes;
  uint tile = routes ? t.group.x : t.group.x - a.tiles, tiles = routes ? 1 : 2;
  ulong at = ulong(tile) * parts * WeightBlock::bytes;
  in<uchar> first = (routes ? a.router : a.shared_gate) + at, second = a.shared_up + at;
  allow_next();
  prefetch_begin(s.barrier, t);
  if (t.index == 0) {
    prefetch_tile(s.barrier, 0, first, parts);
    if (!routes) prefetch_tile(s.barrier, parts, second, parts);
    prefetch_end(s.barrier);
  }
  InputFactors factors = load_factors(a.factor, a.inputs, t.index);
  Task task = first_task(t.simd, parts);
  wait_for_previous();
  prepare_normed(a.x + ulong(t.group.y) * a.inputs, factors, a.inputs, t, s.codes, s.groups, s.squares);
  group_barrier();
  LoadedInputs x = load_part(task.part, planes, s.codes, s.groups, t.lane);
  multiply_tiles(s.barrier, task, 0, first, second, tiles, parts, planes, simds, t, x, s.codes, s.groups,
                 s.sums, 0);
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  group_barrier();
  if (t.index < 64) {  // four lanes a row
    uint row = t.index / 4;
    float sum = take_sum(s.sums, row, parts, t.lane) * scale;
    if (routes) {
      if ((t.lane & 3) == 0) a.logits[ulong(t.group.y) * (a.tiles * 16) + tile * 16 + row] = sum;
    } else {
      float up = take_sum(s.sums, 16 + row, parts, t.lane) * scale;
      if ((t.lane & 3) == 0) {
        a.activations[ulong(t.group.y) * a.activation_stride + tile * 16 + row] = silu(sum) * up;
      }
    }
  }
}

GPU_KERNEL(ExpertGateUp) {
  const uint simds = ExpertGateUp::threads / 32;
  uint parts = blocks_of(a.inputs) * a.planes, tiles = a.expert_size / 16;
  uint first = t.group.x * a.pairs_per_group, count = min(a.pairs_per_group, a.picks * tiles - first);
  GPU_UNROLL for (uint i = 0; i < ExpertGateUp::max_pairs; ++i) prefetch_begin(s.barrier[i], t);
  if (t.simd == simds - 1 && t.group.y == 0 && a.next_blocks != 0) {
    prefetch_share(a.next, a.next_blocks, t.group.x, a.groups, t.lane);
  }
  InputFactors factors = load_factors(a.factor, a.inputs, t.index);
  Task task = first_task(t.simd, parts);
  group_barrier();
  wait_for_previous();
  // The last simdgroups, which have no inputs to prepare, choose.
  if (t.simd >= simds - RankedLogits::simds) {
    rank_logits(a.logits + ulong(t.group.y) * a.logits_stride, a.experts,
                t.simd - (simds - RankedLogits::simds), t.lane, s.order, s.candidate);
  }
  prepare_normed(a.x + ulong(t.group.y) * a.inputs, factors, a.inputs, t, s.codes, s.groups, s.squares);
  allow_next();  // not earlier: ExpertDown relies on the logits being there when it starts
  group_barrier();
  if (t.index < RankedLogits::count) {
    uint pick = rank_candidate(s.order, t.index);
    if (pick < a.picks) {
      uint expert = min(s.candidate[t.index], a.experts - 1);
      s.expert[pick] = expert;
      for (uint i = 0; i < count; ++i) {
        uint tile = first + i - pick * tiles;  // of this pick, if below tiles
        if (tile < tiles) {
          ulong at = pair_offset(expert, tile, tiles, parts);
          prefetch_tile(s.barrier[i], 2 * i * parts, a.gate + at, parts);
          prefetch_tile(s.barrier[i], (2 * i + 1) * parts, a.up + at, parts);
          prefetch_end(s.barrier[i]);
        }
      }
    }
  }
  group_barrier();
  LoadedInputs x = load_part(task.part, a.planes, s.codes, s.groups, t.lane);
  for (uint pair = 0; pair < count; ++pair) {
    ulong at = pair_offset(s.expert[(first + pair) / tiles], (first + pair) % tiles, tiles, parts);
    multiply_tiles(s.barrier[pair], task, 2 * pair * parts, a.gate + at, a.up + at, 2, parts, a.planes, simds,
                   t, x, s.codes, s.groups, s.sums, 2 * pair);
  }
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  group_barrier();
  if (t.index < count * 64) {  // four lanes a row
    uint pair = t.index / 64, row = t.index / 4 % 16;
    float gate = take_sum(s.sums, 2 * pair * 16 + row, parts, t.lane) * scale;
    float up = take_sum(s.sums, (2 * pair + 1) * 16 + row, parts, t.lane) * scale;
    if ((t.lane & 3) == 0) {
      a.activations[ulong(t.group.y) * a.activation_stride + (first + pair) * 16 + row] = silu(gate) * up;
    }
  }
}

GPU_KERNEL(ExpertDown) {
  const uint simds = ExpertDown::threads / 32;
  uint blocks = blocks_of(a.expert_size), shared_blocks = blocks_of(a.shared_size);
  uint inputs = a.picks * blocks + shared_blocks, tile = t.group.x, tiles = a.rows / 16;
  uint parts = blocks * a.planes, shared_parts = shared_blocks * a.planes;
  prefetch_begin(s.barrier, t);
  // The experts are chosen and their weights on their way before ExpertGateUp, the dispatch before this one,
  // has ended: it allows this one only when what came before it, the logits, is complete.
  if (t.simd == 0) {
    in<float> logits = a.logits + ulong(t.group.y) * a.logits_stride;
    uint expert;
    float weight;
    choose_experts(logits, a.experts, a.picks, t.lane, expert, weight);
    if (t.lane < a.picks) {
      s.expert[t.lane] = expert;
      s.weight[t.lane] = weight;
    }
    if (t.lane == a.picks) s.weight[a.picks] = sigmoid(logits[a.gate_row]);
    simd_sync();
    if (t.lane <= a.picks) {
      in<uchar> from =
          down_tile(a.down, a.shared_down, s.expert, t.lane, a.picks, tile, tiles, parts, shared_parts);
      prefetch_tile(s.barrier, t.lane * parts, from, t.lane < a.picks ? parts : shared_parts);
    }
    simd_sync();
    if (t.lane == 0) prefetch_end(s.barrier);
  }
  uint slot = min(t.index / (blocks * 32), a.picks);  // of the inputs that this thread prepares first
  wait_for_previous();
  allow_next();  // not earlier: the next projection's weights would compete with these
  out<float> place = a.residual + ulong(t.group.y) * a.rows + tile * 16 + min(t.index / 4, 15u);
  float residual = *place;  // read early, so that nothing waits for it in the end
  group_barrier();
  in<float> activations = a.activations + ulong(t.group.y) * (a.picks * a.expert_size + a.shared_size);
  for (uint e = t.index; e < inputs * 32;) {
    uint in_slot = e - slot * blocks * 32;
    float v[8], weight = s.weight[slot];
    load_inputs(activations + slot * a.expert_size, slot < a.picks ? a.expert_size : a.shared_size, in_slot,
                v);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) v[i] *= weight;
    quantize_inputs(v, s.codes, s.groups, e);
    e += ExpertDown::threads;
    if (e < inputs * 32) slot = min(e / (blocks * 32), a.picks);
  }
  group_barrier();
  BlockInputs x = block_inputs(s.codes, s.groups, min(t.simd >> (a.planes - 1), inputs - 1), t.lane);
  tile_ready(s.barrier);
  for (uint task = t.simd; task < inputs * a.planes; task += simds) {
    uint of = min(task / parts, a.picks);
    in<uchar> from =
        down_tile(a.down, a.shared_down, s.expert, of, a.picks, tile, tiles, parts, shared_parts) +
        (task - of * parts) * WeightBlock::bytes;
    if (task != t.simd) x = block_inputs(s.codes, s.groups, task >> (a.planes - 1), t.lane);
    float sum = dot_block(tile_block(s.barrier, task, from), x, t.lane);
    put_sum(s.sums, 0, inputs * a.planes, task, sum, t.lane);
  }
  group_barrier();
  if (t.index < 64) {
    float sum = take_sum(s.sums, t.index / 4, inputs * a.planes, t.lane);
    if ((t.lane & 3) == 0) *place = residual + sum;
  }
}
