// What quantizing a checkpoint will write, and where each part comes from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/binder.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/shard_set.hpp"
#include "checkpoint/writer.hpp"

namespace lily::checkpoint {

// A matrix of the source; its codes, scales and biases are the outputs `first_output`, + 1 and + 2.
struct QuantizedMatrix {
  Matrix source;
  Quantization quantization;
  std::size_t first_output = 0;
};

// A small tensor, read already; norms as factors.
struct KeptVector {
  std::vector<float> values;
  std::size_t output = 0;
};

struct QuantizePlan {
  std::vector<OutputTensor> outputs;  // of the MLX layout
  std::vector<QuantizedMatrix> matrices;
  std::vector<KeptVector> vectors;
};

// Throws Error(bad_input) when groups do not fit a matrix, or a vector's value not bf16.
QuantizePlan plan_quantization(const ShardSet& shards, BoundTensors bound, const model::Dimensions& dims,
                               const Quantization& global);

}  // namespace lily::checkpoint
