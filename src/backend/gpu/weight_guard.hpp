// The power of two that brings a matrix of affine weights to where halves are normal (dialect/weight_tile.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "base/bf16.hpp"

namespace lily::gpu {

// The largest magnitude a weight may have, by its group's scale and bias.
inline float largest_weight(std::span<const std::uint16_t> scales, std::span<const std::uint16_t> biases,
                            int bits) {
  const auto top_code = static_cast<float>((1 << bits) - 1);
  float largest = 0;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    largest = std::max(largest,
                       std::fabs(bf16_to_float(biases[i])) + top_code * std::fabs(bf16_to_float(scales[i])));
  }
  return largest;
}

// No weight times the guard is above 2^11, and a scale below 2^-14 belongs to a group whose weights are below
// 2^-21 of the largest: what rounding to a subnormal half loses there is below 2^-35 of it.
inline float weight_guard(float largest) {
  if (!(largest > 0)) return 1;
  return std::ldexp(1.0F, 10 - std::clamp(std::ilogb(largest), -100, 100));
}

}  // namespace lily::gpu
