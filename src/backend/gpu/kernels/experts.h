// The mixture of experts for one token at a time.
#pragma once
#include "backend/gpu/kernels/args/experts.h"
#include "backend/gpu/kernels/choose.h"
#include "backend/gpu/kernels/project.h"

using namespace lily::gpu;

namespace lily::gpu {

// The blocks of gate (even i) or up (odd i) of a pair.
GPU_FN in<uchar> pair_tile(in<uchar> gate, in<uchar> up, in<uchar> shared_gate, in<uchar> shared_up,
                           shared<uint> expert, uint i, uint pair, uint picks, uint tiles, uint blocks) {
  uint slot = min(pair / tiles, picks), tile = pair - slot * tiles;
  if (slot < picks) {
    return ((i & 1) == 0 ? gate : up) + (ulong(expert[slot]) * tiles + tile) * blocks * WeightBlock::bytes;
  }
  return ((i & 1) == 0 ? shared_gate : shared_up) + ulong(tile) * blocks * WeightBlock::bytes;
}

// The blocks of a row tile of the down projection of a slot.
GPU_FN in<uchar> down_tile(in<uchar> down, in<uchar> shared_down, shared<uint> expert, uint slot, uint picks,
                           uint tile, uint tiles, uint blocks, uint shared_blocks) {
  if (slot < picks) return down + (ulong(expert[slot]) * tiles + tile) * blocks * WeightBlock::bytes;
  return shared_down + ulong(tile) * shared_blocks * WeightBlock::bytes;
}

}  // namespace lily::gpu

GPU_KERNEL(ExpertGateUp) {
  const uint simds = ExpertGateUp::threads / 32;
  uint blocks = blocks_of(a.inputs), tiles = a.expert_size / 16, shared_tiles = a.shared_size / 16;
  uint pairs = a.picks * tiles + shared_tiles;
  uint first = t.group.x * a.pairs_per_group, count = min(a.pairs_per_group, pairs - first);
  allow_next();
  prefetch_begin(s.barrier, t);
  wait_for_previous();
  if (t.simd == simds - 1) {
    uint expert;
    float weight;
    choose_experts(a.logits + ulong(t.group.y) * a.logits_stride, a.experts, a.picks, t.lane, expert, weight);
    if (t.lane < a.picks) s.expert[t.lane] = expert;
  }
  prepare_normed(a.x + ulong(t.group.y) * a.inputs, a.factor, a.inputs, ExpertGateUp::threads, t, s.codes,
                 s.groups, s.squares);
  group_barrier();
  // Gate of a pair in slot 2 i, up in slot 2 i + 1.
  if (t.index == 0) {
    for (uint i = 0; i < 2 * count; ++i) {
      prefetch_tile(s.barrier, i * blocks,
                    pair_tile(a.gate, a.up, a.shared_gate, a.shared_up, s.expert, i, first + i / 2, a.picks,
                              tiles, blocks),
                    blocks);
    }
    prefetch_end(s.barrier);
  }
  group_barrier();
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps);
  tile_ready(s.barrier);
  uint loaded = ~0u;
  BlockInputs x;
  for (uint task = t.simd; task < 2 * count * blocks; task += simds) {
    uint i = task / blocks, block = task % blocks;
    if (block != loaded) x = block_inputs(s.codes, s.groups, block, t.lane);
    loaded = block;
    in<uchar> from = pair_tile(a.gate, a.up, a.shared_gate, a.shared_up, s.expert, i, first + i / 2, a.picks,
                               tiles, blocks) +
                     block * WeightBlock::bytes;
    float sum = dot_block(tile_block(s.barrier, task, from), x, t.lane);
    put_sum(s.sums, i, blocks, block, sum, t.lane);
  }
  group_barrier();
  if (t.index < count * 16) {
    uint pair = t.index / 16, row = t.index % 16;
    float gate = take_sum(s.sums, 2 * pair * 16 + row, blocks) * scale;
    float up = take_sum(s.sums, (2 * pair + 1) * 16 + row, blocks) * scale;
    a.activations[ulong(t.group.y) * (pairs * 16) + (first + pair) * 16 + row] = silu(gate) * up;
  }
}

GPU_KERNEL(ExpertDown) {
  const uint simds = ExpertDown::threads / 32;
  uint blocks = blocks_of(a.expert_size), shared_blocks = blocks_of(a.shared_size);
  uint parts = a.picks * blocks + shared_blocks, tile = t.group.x, tiles = a.rows / 16;
  prefetch_begin(s.barrier, t);
  wait_for_previous();
  allow_next();  // not earlier: the next projection's weights would compete with these
  if (t.simd == 0) {
    in<float> logits = a.logits + ulong(t.group.y) * a.logits_stride;
    uint expert;
    float weight;
    choose_experts(logits, a.experts, a.picks, t.lane, expert, weight);
    if (t.lane < a.picks) {
      s.expert[t.lane] = expert;
      s.weight[t.lane] = weight;
    }
    if (t.lane == a.picks) s.weight[a.picks] = sigmoid(logits[a.experts]);
  }
  group_barrier();
  if (t.index == 0) {
    for (uint slot = 0; slot <= a.picks; ++slot) {
      in<uchar> from =
          down_tile(a.down, a.shared_down, s.expert, slot, a.picks, tile, tiles, blocks, shared_blocks);
      prefetch_tile(s.barrier, slot * blocks, from, slot < a.picks ? blocks : shared_blocks);
    }
    prefetch_end(s.barrier);
  }
  in<float> activations = a.activations + ulong(t.group.y) * (a.picks * a.expert_size + a.shared_size);
  for (uint e = t.index; e < parts * 32; e += ExpertDown::threads) {
    uint slot = min(e / (blocks * 32), a.picks), in_slot = e - slot * blocks * 32;
    float v[8], weight = s.weight[slot];
    load_inputs(activations + slot * a.expert_size, slot < a.picks ? a.expert_size : a.shared_size, in_slot,
                v);
    GPU_UNROLL for (uint i = 0; i < 8; ++i) v[i] *= weight;
    quantize_inputs(v, s.codes, s.groups, e);
  }
  group_barrier();
  tile_ready(s.barrier);
  for (uint part = t.simd; part < parts; part += simds) {
    uint slot = min(part / blocks, a.picks);
    in<uchar> from =
        down_tile(a.down, a.shared_down, s.expert, slot, a.picks, tile, tiles, blocks, shared_blocks) +
        (part - slot * blocks) * WeightBlock::bytes;
    BlockInputs x = block_inputs(s.codes, s.groups, part, t.lane);
    put_sum(s.sums, 0, parts, part, dot_block(tile_block(s.barrier, part, from), x, t.lane), t.lane);
  }
  group_barrier();
  if (t.index < 16) {
    a.residual[ulong(t.group.y) * a.rows + tile * 16 + t.index] += take_sum(s.sums, t.index, parts);
  }
}
