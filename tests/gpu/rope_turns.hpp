// The table of turns that AttentionPrepare reads.
#pragma once

#include <cmath>
#include <vector>

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// theta^(-j / 32) / (2 pi) as a fraction of 2^64.
inline std::vector<ulong> rope_turns(double theta) {
  std::vector<ulong> turns;
  for (int j = 0; j < 32; ++j) {
    const long double fraction = std::pow(static_cast<long double>(theta), -j / 32.0L) / (2 * M_PIl);
    turns.push_back(static_cast<ulong>(std::ldexp(fraction, 64)));
  }
  return turns;
}

}  // namespace lily::gpu
