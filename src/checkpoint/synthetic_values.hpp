// Random tensor values that keep a model's activations finite and its experts busy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/synthetic_plan.hpp"

namespace lily::checkpoint {

// Fills `out` with the tensor's bytes from `offset` (a multiple of kPieceBytes) on. The same seed, tensor and
// offset give the same bytes.
void fill_synthetic(const SyntheticTensor& tensor, std::uint64_t seed, std::uint64_t offset,
                    std::span<std::byte> out);

}  // namespace lily::checkpoint
