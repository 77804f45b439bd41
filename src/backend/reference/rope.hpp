// Rotary position embedding of the first `rotary_dim` values of a head.
#pragma once

#include <span>

namespace lily::reference {

// Rotates the pairs (j, j + rotary_dim / 2) by position * theta^(-2j / rotary_dim); the rest passes
// unchanged. Angles are computed in double, so every position up to the model's limit is exact.
void rotate(std::span<float> head, int rotary_dim, double theta, int position);

}  // namespace lily::reference
