// Which experts a token goes to, and the tokens of each expert.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// The `picks` largest of `experts` logits, best first, equal ones by the lower expert, and the softmax over
// them. Grid: tokens / 4, rounded up; a simdgroup per token.
struct TopExperts {
  enum : uint { threads = 128, tokens_per_group = 4, max_experts = 256, max_picks = 8 };
  in<float> logits;   // [tokens][stride]
  out<uint> expert;   // [tokens][picks]
  out<float> weight;  // [tokens][picks]
  uint tokens, experts, picks, stride;
  using Shared = NoShared;
};

// Adds to `count` [256], zero before, how often each expert occurs. Grid: n / 256, rounded up.
struct CountExperts {
  enum : uint { threads = 256, max_experts = 256 };
  in<uint> expert;  // [n]
  out<atomic_uint> count;
  uint n;
  struct Shared {
    atomic_uint count[max_experts];
  };
};

// offset [257] = exclusive prefix sums of count [256], the total last; count becomes zero again. Grid: 1.
struct ExpertOffsets {
  enum : uint { threads = 256 };
  out<uint> count;
  out<uint> offset;
  struct Shared {
    uint total[threads / 32];
  };
};

// order [n] = the positions of the list `expert`, sorted by expert, in order within one. Grid: 256 / 4; a
// simdgroup per expert walks the list.
struct SortByExpert {
  enum : uint { threads = 128, experts_per_group = 4, max_experts = 256 };
  in<uint> expert, offset;
  out<uint> order;
  uint n;
  using Shared = NoShared;
};

}  // namespace lily::gpu
