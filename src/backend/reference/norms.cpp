// The normalizations of the model.
#include "backend/reference/norms.hpp"

#include <cmath>

#include "backend/reference/scalar.hpp"

namespace lily::reference {
namespace {

constexpr double kL2Epsilon = 1e-6;

template <class Value>
double inverse_rms(std::span<const Value> x, double eps) {
  return 1.0 / std::sqrt(dot(x.data(), x.data(), x.size()) / static_cast<double>(x.size()) + eps);
}

}  // namespace

void rms_norm(std::span<const float> x, std::span<const float> factor, double eps, std::span<float> output) {
  const double scale = inverse_rms(x, eps);
  for (std::size_t i = 0; i < x.size(); ++i) output[i] = static_cast<float>(x[i] * scale * factor[i]);
}

Rows rms_norm(const Rows& x, std::span<const float> factor, double eps) {
  Rows output(x.count(), x.width());
  for (int token = 0; token < x.count(); ++token) rms_norm(x[token], factor, eps, output[token]);
  return output;
}

void gated_rms_norm(std::span<const double> x, std::span<const float> weight, std::span<const float> gate,
                    double eps, std::span<float> output) {
  const double scale = inverse_rms(x, eps);
  for (std::size_t i = 0; i < x.size(); ++i) {
    output[i] = static_cast<float>(x[i] * scale * weight[i] * silu(gate[i]));
  }
}

void l2_normalize(std::span<const float> x, double scale, std::span<double> output) {
  const double factor = scale / std::sqrt(dot(x.data(), x.data(), x.size()) + kL2Epsilon);
  for (std::size_t i = 0; i < x.size(); ++i) output[i] = x[i] * factor;
}

}  // namespace lily::reference
