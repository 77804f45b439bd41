// The choice of experts from the router's logits, by one simdgroup.
#pragma once
#include "backend/gpu/dialect/gpu.h"

namespace lily::gpu {

// Lane i < picks gets the i-th largest of up to 256 logits (equal ones: the lower expert first) and its
// softmax weight among the chosen. A logit that is no number gives weights that are none, but never an expert
// that does not exist.
GPU_FN void choose_experts(in<float> logits, uint experts, uint picks, uint lane, ref<uint> expert,
                           ref<float> weight) {
  float v[8];
  GPU_UNROLL for (uint j = 0; j < 8; ++j) {
    uint i = j * 32 + lane;
    v[j] = i < experts ? logits[i] : -1e30f;
  }
  float largest = 0.0f, mine = 0.0f, sum = 0.0f;
  uint chosen = 0;
  for (uint pick = 0; pick < picks; ++pick) {
    float best = v[0];
    uint where = lane;
    GPU_UNROLL for (uint j = 1; j < 8; ++j) {
      if (v[j] > best) {
        best = v[j];
        where = j * 32 + lane;
      }
    }
    float top = simd_max(best);
    uint first = simd_min(best == top ? where : ~0u);
    GPU_UNROLL for (uint j = 0; j < 8; ++j) {
      if (first == j * 32 + lane) v[j] = -1e30f;
    }
    if (pick == 0) largest = top;
    float share = exp(top - largest);
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
