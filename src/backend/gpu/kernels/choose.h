// The choice of experts from the router's logits, by one simdgroup.
#pragma once
#include "backend/gpu/dialect/gpu.h"

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
// that does not exist.
GPU_FN void choose_experts(in<float> logits, uint experts, uint picks, uint lane, ref<uint> expert,
                           ref<float> weight) {
  uint v[8];
  GPU_UNROLL for (uint j = 0; j < 8; ++j) {
    uint i = j * 32 + lane;
    v[j] = i < experts ? order_of(logits[i]) : 0;
  }
  float largest = 0.0f, mine = 0.0f, sum = 0.0f;
  uint chosen = 0;
  for (uint pick = 0; pick < picks; ++pick) {
    uint best[4], where[4];
    GPU_UNROLL for (uint j = 0; j < 4; ++j) {
      bool second = v[2 * j + 1] > v[2 * j];
      best[j] = second ? v[2 * j + 1] : v[2 * j];
      where[j] = (second ? 2 * j + 1 : 2 * j) * 32 + lane;
    }
    GPU_UNROLL for (uint step = 1; step < 4; step *= 2) {
      GPU_UNROLL for (uint j = 0; j < 4; j += 2 * step) {
        bool second = best[j + step] > best[j];
        best[j] = second ? best[j + step] : best[j];
        where[j] = second ? where[j + step] : where[j];
      }
    }
    uint top = simd_max(best[0]), first = simd_min(best[0] == top ? where[0] : ~0u);
    GPU_UNROLL for (uint j = 0; j < 8; ++j) {
      if (first == j * 32 + lane) v[j] = 0;
    }
    if (pick == 0) largest = value_of(top);
    float share = exp(value_of(top) - largest);
    sum += share;
    if (lane == pick) {
      mine = share;
      chosen = min(first, experts - 1);
    }
  }
  expert = chosen;
  weight = mine / sum;
}

}  // namespace lily::gpu
