// The normalizations of the model. Statistics in double, results rounded to fp32 once.
#pragma once

#include <span>

#include "backend/reference/rows.hpp"

namespace lily::reference {

// output = x / sqrt(mean(x^2) + eps) * factor. `output` may be `x`.
void rms_norm(std::span<const float> x, std::span<const float> factor, double eps, std::span<float> output);
Rows rms_norm(const Rows& x, std::span<const float> factor, double eps);

// output = x / sqrt(mean(x^2) + eps) * weight * silu(gate): the gate is no part of the statistics.
void gated_rms_norm(std::span<const double> x, std::span<const float> weight, std::span<const float> gate,
                    double eps, std::span<float> output);

// output = x / sqrt(sum(x^2) + 1e-6) * scale.
void l2_normalize(std::span<const float> x, double scale, std::span<double> output);

}  // namespace lily::reference
