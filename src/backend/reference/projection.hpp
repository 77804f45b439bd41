// Matrix products of the reference backend: weights are decoded row by row from the mapped checkpoint.
#pragma once

#include <span>

#include "backend/reference/rows.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"

namespace lily::reference {

// What every part of the forward pass needs: where the weights are and the threads to use.
struct Context {
  const checkpoint::Checkpoint& checkpoint;
  ThreadPool& pool;
};

// y[t] = W x[t] for all rows t. A weight row is decoded once and used for all of them.
Rows project(const Context& context, const checkpoint::Matrix& matrix, int expert, const Rows& inputs);

// y = W x for one input.
void project(const Context& context, const checkpoint::Matrix& matrix, std::span<const float> input,
             std::span<float> output);

}  // namespace lily::reference
