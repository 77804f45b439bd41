// Scalar formulas of the model in double precision, shared by the parts of the reference backend.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

namespace lily::reference {

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline double silu(double x) { return x * sigmoid(x); }

// log(1 + exp(x)) without overflow.
inline double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

// Eight partial sums: the compiler may then use vector instructions without reordering a sum on its own.
template <class Left, class Right>
double dot(const Left* left, const Right* right, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(left[i + lane]) * static_cast<double>(right[i + lane]);
    }
  }
  double total = 0;
  for (; i < count; ++i) total += static_cast<double>(left[i]) * static_cast<double>(right[i]);
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace lily::reference
