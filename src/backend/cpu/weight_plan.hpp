// Where each of the model's matrices goes, and which bytes of the checkpoint go there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/weights.hpp"
#include "checkpoint/checkpoint.hpp"

namespace lily::cpu {

inline int bits_of(const checkpoint::Matrix& matrix) {
  return matrix.format == checkpoint::MatrixFormat::affine4 ? 4 : 8;
}

enum class Content { codes, scales, biases, copy };

// Consecutive rows of one tensor of a matrix (or bytes that are copied as they are), inside the file by
// construction.
struct TensorRun {
  Content content = Content::copy;
  int shard = 0;
  std::uint64_t offset = 0;  // from the beginning of the file
  std::uint64_t bytes = 0;
  std::size_t out = 0;  // from the beginning of the arena
  // What is packed of these rows: `groups` groups of 64 columns, into the blocks from `out` on.
  const checkpoint::Matrix* matrix = nullptr;
  int rows = 0;
  int first_group = 0;
  int groups = 0;
  int planes = 1;
};

struct WeightPlan {
  Weights weights;  // without an arena: pointers are offsets
  std::size_t arena_bytes = 0;
  std::vector<TensorRun> runs;

  // Allocates the arena and makes pointers of offsets.
  void allocate();
};

// Throws Error(unsupported) naming the tensor of a format without a kernel.
WeightPlan plan_weights(const checkpoint::Checkpoint& checkpoint);

}  // namespace lily::cpu
