// Memory of a thread for what the tile kernels unpack and gather.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lily::cpu {

// At least `bytes`, aligned to a page, until the thread's next call. Grows and stays, so that only a thread's
// first calls allocate. Throws Error(out_of_memory).
std::int8_t* tile_scratch(std::size_t bytes);

}  // namespace lily::cpu
