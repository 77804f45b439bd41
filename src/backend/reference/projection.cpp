// Matrix products of the reference backend.
#include "backend/reference/projection.hpp"

#include <vector>

#include "backend/reference/scalar.hpp"

namespace lily::reference {
namespace {

constexpr std::int64_t kRowsPerTask = 16;

// Calls use(row, weights) for every row of the matrix, with the weights widened to double.
template <class Use>
void for_each_weight_row(const Context& context, const checkpoint::Matrix& matrix, int expert,
                         const Use& use) {
  const auto columns = static_cast<std::size_t>(matrix.columns);
  context.pool.parallel_for(matrix.rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<float> decoded(columns);
    std::vector<double> weights(columns);
    for (std::int64_t row = begin; row < end; ++row) {
      checkpoint::decode_row(context.checkpoint, matrix, expert, row, decoded);
      for (std::size_t column = 0; column < columns; ++column) weights[column] = decoded[column];
      use(static_cast<std::size_t>(row), weights.data());
    }
  });
}

}  // namespace

Rows project(const Context& context, const checkpoint::Matrix& matrix, int expert, const Rows& inputs) {
  Rows outputs(inputs.count(), static_cast<std::size_t>(matrix.rows));
  for_each_weight_row(context, matrix, expert, [&](std::size_t row, const double* weights) {
    for (int token = 0; token < inputs.count(); ++token) {
      outputs[token][row] = static_cast<float>(dot(weights, inputs[token].data(), inputs.width()));
    }
  });
  return outputs;
}

void project(const Context& context, const checkpoint::Matrix& matrix, std::span<const float> input,
             std::span<float> output) {
  for_each_weight_row(context, matrix, 0, [&](std::size_t row, const double* weights) {
    output[row] = static_cast<float>(dot(weights, input.data(), input.size()));
  });
}

}  // namespace lily::reference
