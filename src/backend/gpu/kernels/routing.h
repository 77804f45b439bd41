// Which experts a token goes to, and the tokens of each expert.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/routing.h"

using namespace lily::gpu;

GPU_KERNEL(TopExperts) {
  const uint per_lane = TopExperts::max_experts / 32;
  uint token = t.group.x * TopExperts::tokens_per_group + t.simd;
  if (token >= a.tokens) return;  // a whole simdgroup
  float v[per_lane];
  GPU_UNROLL for (uint j = 0; j < per_lane; ++j) {
    uint expert = j * 32 + t.lane;
    v[j] = expert < a.experts ? a.logits[ulong(token) * a.stride + expert] : -1e30f;
  }
  float largest = 0.0f, mine = 0.0f, sum = 0.0f;
  uint chosen = 0;
  for (uint pick = 0; pick < a.picks; ++pick) {
    float best = v[0];
    uint where = t.lane;
    GPU_UNROLL for (uint j = 1; j < per_lane; ++j) {
      if (v[j] > best) {
        best = v[j];
        where = j * 32 + t.lane;
      }
    }
    float top = simd_max(best);
    uint expert = simd_min(best == top ? where : ~0u);  // ties go to the lower expert
    GPU_UNROLL for (uint j = 0; j < per_lane; ++j) {
      if (expert == j * 32 + t.lane) v[j] = -1e30f;
    }
    if (pick == 0) largest = top;
    float weight = exp(top - largest);
    sum += weight;
    if (t.lane == pick) {
      mine = weight;
      chosen = expert;
    }
  }
  if (t.lane < a.picks) {
    a.expert[token * a.picks + t.lane] = chosen;
    a.weight[token * a.picks + t.lane] = mine / sum;
  }
}

GPU_KERNEL(CountExperts) {
  atomic_set(s.count + t.index, 0);
  group_barrier();
  uint i = t.group.x * CountExperts::threads + t.index;
  if (i < a.n) atomic_add(s.count + a.expert[i], 1);
  group_barrier();
  uint count = atomic_get(s.count + t.index);
  if (count > 0) atomic_add(a.count + t.index, count);
}

GPU_KERNEL(ExpertOffsets) {
  uint count = a.count[t.index];
  uint before = simd_prefix_exclusive_sum(count);
  if (t.lane == 31) s.total[t.simd] = before + count;
  group_barrier();
  for (uint i = 0; i < t.simd; ++i) before += s.total[i];
  a.offset[t.index] = before;
  if (t.index == ExpertOffsets::threads - 1) a.offset[ExpertOffsets::threads] = before + count;
}

GPU_KERNEL(SortByExpert) {
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
