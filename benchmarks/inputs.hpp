// The shapes that are measured, and random inputs for them.
#pragma once

#include <random>
#include <vector>

#include "backend/cpu/activations.hpp"
#include "checkpoint/synthetic_plan.hpp"

namespace lily::benchmarks {

inline const model::Dimensions& dimensions() {
  static const model::Dimensions dims = checkpoint::synthetic_preset("35b").dimensions;
  return dims;
}

inline std::vector<float> random_values(std::size_t count, float low = -1, float high = 1) {
  std::mt19937 random(20261129);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(random);
  return values;
}

inline std::size_t product(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

}  // namespace lily::benchmarks
