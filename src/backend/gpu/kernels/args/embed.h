// Rows of the embedding.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// x = scale * code + bias of the tokens' rows. A row that is not in the table is none of the host's: it is
// cut to the last one. Grid: (1, tokens).
struct EmbedRow {
  enum : uint { threads = 256 };
  in<uint> codes;             // [vocabulary][hidden * bits / 32]
  in<bfloat> scales, biases;  // [vocabulary][hidden / group_size]
  in<uint> token;             // [tokens]
  out<float> x;               // [tokens][hidden]
  uint vocabulary, hidden, bits, group_size;
  using Shared = NoShared;
};

}  // namespace lily::gpu
