// The mixture of experts for one token at a time.
#pragma once
#include "backend/gpu/kernels/args/experts.h"
#include "backend/gpu/kernels/choose.h"
#include "backend/gpu/kernels/products.h"

using namespace lily::gpu;

namespace lily::gpu {

// The blocks of gate (even i) or up (odd i) of a pair.
GPU_FN in<uchar> pair_tile(in<uchar> gate, in<uchar> up, in<uchar> shared_gate, in<uchar> shared_up,
                           shared<uint> expert, uint i, uint pair, uint picks, uint tiles, uint parts) {
  uint slot = min(pair / tiles, picks), tile = pair - slot * tiles;
  if (slot < picks) {
    return ((i & 1) == 0 ? gate : up) + (ulong(expert[slot]) * tiles + tile) * parts * WeightBlock::bytes;
  }
  return ((i & 1) == 0 ? shared_gate : shared_up) + ulong(tile) * parts * WeightBlock::bytes;
}

// The blocks of a row tile of the down projection of a slot.
GPU_FN in<uchar> down_tile(in<uchar> down, in<uchar> shared_down, shared<uint> expert, uint slot, uint picks,
                           uint tile, uint tiles, uint parts, uint shared_parts) {
  if (slot < picks) return down + (ulong(expert[slot]) * tiles + tile) * parts * WeightBlock::bytes;
  return shared_down + ulong(tile) * shared_parts * WeightBlock::bytes;
}

}  // namespace lily::gpu

GPU_KERNEL(ExpertGateUp) {
  const uint simds = ExpertGateUp::threads / 32;
  uint parts = blocks_of(a.inputs) * a.planes, tiles = a.expert_size / 16, shared_tiles = a.shared_size / 16;
  uint pairs = a.picks * tiles + shared_tiles;
  uint first = t.group.x * a.pairs_per_group, count = min(a.pairs_per_group, pairs - first);
  prefetch_begin(s.barrier, t);
  group_barrier();
  wait_for_previous();
  // The last simdgroup, which has no inputs to prepare, chooses and fetches: gate of a pair in slot 2 i, up
  // in slot 2 i + 1.
  if (t.simd == simds - 1) {
    uint expert;
    float weight;
    choose_experts(a.logits + ulong(t.group.y) * a.logits_stride, a.experts, a.picks, t.lane, expert, weight);
    if (t.lane < a.picks) s.expert[t.lane] = expert;
    simd_sync();
    if (t.lane == 0) {
      for (uint i = 0; i < 2 * count; ++i) {
        prefetch_tile(s.barrier, i * parts,
                      pair_tile(a.gate, a.up, a.shared_gate, a.shared_up, s.expert, i, first + i / 2, a.picks,
                                tiles, parts),
                      parts);
      }
      prefetch_end(s.barrier);
    }
  }
  prepare_normed(a.x + ulong(t.group.y) * a.inputs, a.factor, a.inputs, ExpertGateUp::threads, t, s.codes,
                 s.groups, s.squares);
  allow_next();  // not earlier: ExpertDown relies on the logits being there when it starts
  group_barrier();
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  tile_ready(s.barrier);
  uint loaded = ~0u;
  BlockInputs x;
  for (uint task = t.simd; task < 2 * count * parts; task += simds) {
    uint i = task / parts, part = task % parts, block = part / a.planes;
    if (block != loaded) x = block_inputs(s.codes, s.groups, block, t.lane);
    loaded = block;
    in<uchar> from = pair_tile(a.gate, a.up, a.shared_gate, a.shared_up, s.expert, i, first + i / 2, a.picks,
                               tiles, parts) +
                     part * WeightBlock::bytes;
    float sum = dot_block(tile_block(s.barrier, task, from), x, t.lane);
    put_sum(s.sums, i, parts, part, sum, t.lane);
  }
  group_barrier();
  if (t.index < count * 64) {  // four lanes a row
    uint pair = t.index / 64, row = t.index / 4 % 16;
    float gate = take_sum(s.sums, 2 * pair * 16 + row, parts, t.lane) * scale;
    float up = take_sum(s.sums, (2 * pair + 1) * 16 + row, parts, t.lane) * scale;
    if ((t.lane & 3) == 0) {
      a.activations[ulong(t.group.y) * (pairs * 16) + (first + pair) * 16 + row] = silu(gate) * up;
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
    if (t.lane == 0) {
      for (uint slot = 0; slot <= a.picks; ++slot) {
        in<uchar> from =
            down_tile(a.down, a.shared_down, s.expert, slot, a.picks, tile, tiles, parts, shared_parts);
        prefetch_tile(s.barrier, slot * parts, from, slot < a.picks ? parts : shared_parts);
      }
      prefetch_end(s.barrier);
    }
  }
  wait_for_previous();
  allow_next();  // not earlier: the next projection's weights would compete with these
  out<float> place = a.residual + ulong(t.group.y) * a.rows + tile * 16 + min(t.index / 4, 15u);
  float residual = *place;  // read early, so that nothing waits for it in the end
  group_barrier();
  in<float> activations = a.activations + ulong(t.group.y) * (a.picks * a.expert_size + a.shared_size);
  for (uint e = t.index; e < inputs * 32; e += ExpertDown::threads) {
    uint slot = min(e / (blocks * 32), a.picks), in_slot = e - slot * blocks * 32;
    float v[8], weight = s.weight[slot];
    load_inputs(activations + slot * a.expert_size, slot < a.picks ? a.expert_size : a.shared_size, in_slot,
                v);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) v[i] *= weight;
    quantize_inputs(v, s.codes, s.groups, e);
  }
  group_barrier();
  tile_ready(s.barrier);
  for (uint task = t.simd; task < inputs * a.planes; task += simds) {
    uint slot = min(task / parts, a.picks);
    in<uchar> from =
        down_tile(a.down, a.shared_down, s.expert, slot, a.picks, tile, tiles, parts, shared_parts) +
        (task - slot * parts) * WeightBlock::bytes;
    BlockInputs x = block_inputs(s.codes, s.groups, task / a.planes, t.lane);
    float sum = dot_block(tile_block(s.barrier, task, from), x, t.lane);
    put_sum(s.sums, 0, inputs * a.planes, task, sum, t.lane);
  }
  group_barrier();
  if (t.index < 64) {
    float sum = take_sum(s.sums, t.index / 4, inputs * a.planes, t.lane);
    if ((t.lane & 3) == 0) *place = residual + sum;
  }
}
