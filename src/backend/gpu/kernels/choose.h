// The choice of experts from the router's logits, by one simdgroup.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/experts.h"

namespace lily::gpu {

// Bits that compare as the floats do, so that integers, whose maximum over a simdgroup is one instruction on
// some machines, stand for logits: the choice stands in the way of the experts' weights. 0 is below all of
// them.
GPU_FN uint order_of(float x) {
  uint bits = as_type<uint>(x == 0.0f ? 0.0f : x);
  return bits ^ (uint(int(bits) >> 31) | 0x80000000u);
}
GPU_FN float value_of(uint order) { return as_type<float>(order ^ (uint(int(~order) >> 31) | 0x80000000u)); }

// Lane i < picks gets the i-th largest of up to 256 logits (equal ones: the lower expert first) and its
// softmax weight among the chosen. A logit that is no number gives weights that are none, but never an expert
// that does not exist. Each lane sorts the eight logits of neighbouring experts, so that a pick looks at the
// first of each lane only. The row begins at a multiple of 16 bytes.
GPU_FN void choose_experts(in<float> logits, uint experts, uint picks, uint lane, ref<uint> expert,
                           ref<float> weight) {
  uint order[8], at[8];
  if (lane * 8 + 8 <= experts) {
    float v[8];
    load_eight(logits + lane * 8, v);
    GPU_UNROLL for (uint j = 0; j < 8; ++j) order[j] = order_of(v[j]);
  } else {
    GPU_UNROLL for (uint j = 0; j < 8; ++j) {
      order[j] = lane * 8 + j < experts ? order_of(logits[lane * 8 + j]) : 0;
    }
  }
  GPU_UNROLL for (uint j = 0; j < 8; ++j) at[j] = j;
  GPU_UNROLL for (uint round = 0; round < 8; ++round) {  // neighbours swap: equal ones keep their order
    GPU_UNROLL for (uint j = round % 2; j + 1 < 8; j += 2) {
      bool swap = order[j + 1] > order[j];
      uint larger = max(order[j], order[j + 1]), first = swap ? at[j + 1] : at[j];
      order[j + 1] = min(order[j], order[j + 1]);
      order[j] = larger;
      at[j + 1] = swap ? at[j] : at[j + 1];
      at[j] = first;
    }
  }
  uint mine = 0, largest = 0, chosen = 0;
  for (uint pick = 0; pick < picks; ++pick) {
    uint top = simd_max(order[0]), with_top = simd_mask(order[0] == top);
    bool wins = order[0] == top && (with_top & ((1u << lane) - 1)) == 0;
    uint who = simd_max(wins ? lane * 8 + at[0] : 0);
    GPU_UNROLL for (uint j = 0; j < 7; ++j) {
      order[j] = wins ? order[j + 1] : order[j];
      at[j] = wins ? at[j + 1] : at[j];
    }
    order[7] = wins ? 0 : order[7];
    largest = pick == 0 ? top : largest;
    mine = lane == pick ? top : mine;
    chosen = lane == pick ? min(who, experts - 1) : chosen;
  }
  float share = lane < picks ? exp(value_of(mine) - value_of(largest)) : 0.0f;
  expert = chosen;
  weight = share / simd_sum(share);
}

// The same choice by eight simdgroups, for a threadgroup that waits for it: each ranks 32 logits, then two of
// them rank the 64 that remain. Ranks are counted, so that no step waits for the one before.

// The eight largest of logits 32 part to 32 part + 31, sorted.
GPU_FN void rank_logits(in<float> logits, uint experts, uint part, uint lane, shared<uint> order,
                        shared<uint> expert) {
  uint mine = part * 32 + lane, key = mine < experts ? max(order_of(logits[mine]), 1u) : 0, rank = 0;
  GPU_UNROLL for (uint mask = 1; mask < 32; ++mask) {
    uint top_bit = mask >= 16 ? 16 : mask >= 8 ? 8 : mask >= 4 ? 4 : mask >= 2 ? 2 : 1;
    uint other = simd_shuffle_xor(key, mask);
    rank += other > key || (other == key && (lane & top_bit) != 0) ? 1 : 0;
  }
  if (rank < RankedLogits::kept) {
    order[part * RankedLogits::kept + rank] = key;
    expert[part * RankedLogits::kept + rank] = mine;
  }
}

// Which pick candidate `at` is, after a group_barrier; others are no pick.
GPU_FN uint rank_candidate(shared<uint> order, uint at) {
  uint key = order[at], part = at / RankedLogits::kept, rank = at % RankedLogits::kept;
  GPU_UNROLL for (uint other = 0; other < RankedLogits::simds; ++other) {
    // Equal ones of an earlier part come first. Those of its own part are counted already.
    uint least = other == part ? ~0u : other < part ? key - 1 : key;
    uint4 p = load16(order + other * RankedLogits::kept), q = load16(order + other * RankedLogits::kept + 4);
    rank += (p.x > least ? 1 : 0) + (p.y > least ? 1 : 0) + (p.z > least ? 1 : 0) + (p.w > least ? 1 : 0);
    rank += (q.x > least ? 1 : 0) + (q.y > least ? 1 : 0) + (q.z > least ? 1 : 0) + (q.w > least ? 1 : 0);
  }
  return key == 0 ? RankedLogits::count + 0u : rank;
}

}  // namespace lily::gpu
