// What a sequence takes on a device.
#pragma once

#include <cstdint>

namespace lily::gpu {

// In bytes. Activations are the room for the tokens of a pass; it is bounded, however large the capacity.
struct SequenceMemory {
  std::uint64_t total = 0;
  std::uint64_t activations = 0;
};

}  // namespace lily::gpu
