// Rows of halves as the matrix tiles read them, made and read on the host.
#pragma once

#include <span>
#include <vector>

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// Where input k of a row lies: within its group of 64, input 16 c + 8 h + 4 e + j is at 16 j + 8 h + 2 c + e.
inline std::size_t place_of(std::size_t k) {
  return k / 64 * 64 + k % 4 * 16 + k / 8 % 2 * 8 + k / 16 % 4 * 2 + k / 4 % 2;
}

// A row in the order of its inputs.
inline std::vector<double> in_order(std::span<const half> row) {
  std::vector<double> x(row.size());
  for (std::size_t k = 0; k < row.size(); ++k) x[k] = static_cast<double>(row[place_of(k)]);
  return x;
}

}  // namespace lily::gpu
