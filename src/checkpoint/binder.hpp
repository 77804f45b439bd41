// Matches the tensors found in the files with the tensors the architecture expects.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/shard_set.hpp"

namespace lily::checkpoint {

// Everything bound, by canonical name; matrices by module path.
struct BoundTensors {
  model::Layout layout = model::Layout::mlx;
  std::map<std::string, Matrix> matrices;
  std::map<std::string, std::vector<float>> vectors;  // norms as factors to multiply with
  int tensors = 0;
  std::uint64_t bytes = 0;
};

// Proves that every expected tensor is there exactly once with the right shape and type and that nothing else
// is. The layout follows from the convolution's shape. Throws Error naming the tensors.
BoundTensors bind_tensors(const ShardSet& shards, const Config& config);

}  // namespace lily::checkpoint
