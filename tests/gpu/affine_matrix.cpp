// Products of a random affine matrix in fp64.
#include "gpu/affine_matrix.hpp"

#include <algorithm>

#include "gpu/tolerances.hpp"

namespace lily::gpu {

AffineMatrix::Product AffineMatrix::multiply(int row_index, std::span<const double> x) const {
  constexpr int kGroup = 64;
  Product product;
  double magnitude = 0;
  for (int group = 0; group < format_.columns; group += kGroup) {
    double largest = 0, weights = 0;
    for (int i = group; i < group + kGroup; ++i) {
      const double input = x[static_cast<std::size_t>(i)], part = code_part(row_index, i),
                   b = bias(row_index, i);
      largest = std::max(largest, std::fabs(input));
      weights += std::fabs(part + b);
      product.value += (part + b) * input;
      magnitude += (std::fabs(part) + std::fabs(b)) * std::fabs(input);
    }
    product.bound += tolerance::kInputStep * largest * weights;
  }
  product.bound += tolerance::kSum * magnitude;
  return product;
}

AffineMatrix::Product AffineMatrix::multiply_halves(int row_index, std::span<const double> x) const {
  Product product;
  for (int i = 0; i < format_.columns; ++i) {
    const double input = x[static_cast<std::size_t>(i)], part = code_part(row_index, i),
                 b = bias(row_index, i);
    product.value += (part + b) * input;
    product.bound += tolerance::kHalf * (std::fabs(part) + std::fabs(b)) * std::fabs(input);
  }
  return product;
}

}  // namespace lily::gpu
