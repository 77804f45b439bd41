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

namespace lily::gpu {

// Entries `at` to `at + 3` of a list of n; no expert beyond its end.
GPU_FN uint4 four_experts(in<uint> expert, uint at, uint n) {
  if (at + 4 <= n) return load16(expert + at);
  const uint none = ~0u;
  return uint4{at < n ? expert[at] : none, at + 1 < n ? expert[at + 1] : none,
               at + 2 < n ? expert[at + 2] : none, none};
}

}  // namespace lily::gpu

// A simdgroup reads 512 entries at a time, and the next ones while it looks at these; few have its expert.
GPU_KERNEL(SortByExpert) {
  const uint batch = 128, batches = 4;
  allow_next();
  wait_for_previous();
  uint expert = t.group.x * SortByExpert::experts_per_group + t.simd;
  uint at = a.offset[expert], first = t.lane * 4, before = (1u << t.lane) - 1u;
  uint4 v[batches], next[batches];
  GPU_UNROLL for (uint b = 0; b < batches; ++b) next[b] = four_experts(a.expert, first + b * batch, a.n);
  for (uint i = 0; i < a.n; i += batches * batch, first += batches * batch) {
    GPU_UNROLL for (uint b = 0; b < batches; ++b) {
      v[b] = next[b];
      next[b] = four_experts(a.expert, first + (batches + b) * batch, a.n);
    }
    GPU_UNROLL for (uint b = 0; b < batches; ++b) {
      uint hits[4] = {simd_mask(v[b].x == expert), simd_mask(v[b].y == expert), simd_mask(v[b].z == expert),
                      simd_mask(v[b].w == expert)};
      uint to = at;
      GPU_UNROLL for (uint j = 0; j < 4; ++j) {
        to += popcount(hits[j] & before);
        at += popcount(hits[j]);
      }
      GPU_UNROLL for (uint j = 0; j < 4; ++j) {
        if ((hits[j] >> t.lane & 1u) == 1u) {
          a.order[to] = first + b * batch + j;
          ++to;
        }
      }
    }
  }
}
