// Rotary position embedding of the first rotary_dim values of a head (docs/model.md, "Rope").
#pragma once

#include <cmath>

namespace lily::cpu {

// cosines and sines [rotary_dim / 2] of one position; angles in fp64, since fp32 is off by 1e-2 at 262,144.
inline void rope_angles(int position, int rotary_dim, double theta, float* cosines, float* sines) {
  for (int j = 0; j < rotary_dim / 2; ++j) {
    const double angle = position * std::pow(theta, -2.0 * j / rotary_dim);
    cosines[j] = static_cast<float>(std::cos(angle));
    sines[j] = static_cast<float>(std::sin(angle));
  }
}

inline void apply_rope(const float* cosines, const float* sines, int rotary_dim, float* x) {
  const int half = rotary_dim / 2;
  for (int j = 0; j < half; ++j) {
    const float a = x[j], b = x[j + half];
    x[j] = a * cosines[j] - b * sines[j];
    x[j + half] = b * cosines[j] + a * sines[j];
  }
}

}  // namespace lily::cpu
