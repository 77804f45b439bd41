// Which experts a token goes to, and the tokens of each expert.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/routing.h"
#include "backend/gpu/kernels/choose.h"

using namespace lily::gpu;

GPU_KERNEL(TopExperts) {
  allow_next();
  wait_for_previous();
  uint token = t.group.x * TopExperts::tokens_per_group + t.simd;
  if (token >= a.tokens) return;  // a whole simdgroup
  uint expert;
  float weight;
  choose_experts(a.logits + ulong(token) * a.stride, a.experts, a.picks, t.lane, expert, weight);
  if (t.lane < a.picks) {
    a.expert[token * a.picks + t.lane] = expert;
    a.weight[token * a.picks + t.lane] = weight;
  }
}

GPU_KERNEL(CountExperts) {
  allow_next();
  wait_for_previous();
  atomic_set(s.count + t.index, 0);
  group_barrier();
  uint i = t.group.x * CountExperts::threads + t.index;
  if (i < a.n) atomic_add(s.count + a.expert[i], 1);
  group_barrier();
  uint count = atomic_get(s.count + t.index);
  if (count > 0) atomic_add(a.count + t.index, count);
}

GPU_KERNEL(ExpertOffsets) {
  allow_next();
  wait_for_previous();
  uint count = a.count[t.index];
  a.count[t.index] = 0;
  uint before = simd_prefix_exclusive_sum(count);
  if (t.lane == 31) s.total[t.simd] = before + count;
  group_barrier();
  for (uint i = 0; i < t.simd; ++i) before += s.total[i];
  a.offset[t.index] = before;
  if (t.index == ExpertOffsets::threads - 1) a.offset[ExpertOffsets::threads] = before + count;
}

GPU_KERNEL(SortByExpert) {
  allow_next();
  wait_for_previous();
  uint expert = t.group.x * SortByExpert::experts_per_group + t.simd;
  uint at = a.offset[expert];
  for (uint i = 0; i < a.n; i += 32) {
    uint j = i + t.lane;
    bool hit = j < a.n && a.expert[j] == expert;
    uint hits = simd_mask(hit);
    if (hit) a.order[at + popcount(hits & ((1u << t.lane) - 1u))] = j;
    at += popcount(hits);
  }
}
