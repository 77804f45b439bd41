// Rotary position embedding.
#include "backend/reference/rope.hpp"

#include <cmath>

namespace lily::reference {

void rotate(std::span<float> head, int rotary_dim, double theta, int position) {
  const auto half = static_cast<std::size_t>(rotary_dim / 2);
  for (std::size_t j = 0; j < half; ++j) {
    const double angle = position * std::pow(theta, -static_cast<double>(j) / static_cast<double>(half));
    const double cosine = std::cos(angle);
    const double sine = std::sin(angle);
    const double first = head[j];
    const double second = head[j + half];
    head[j] = static_cast<float>(first * cosine - second * sine);
    head[j + half] = static_cast<float>(second * cosine + first * sine);
  }
}

}  // namespace lily::reference
