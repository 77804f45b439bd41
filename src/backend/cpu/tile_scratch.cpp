// Apart from the kernels, because what their files compile may use instructions that other machines lack.
#include "backend/cpu/tile_scratch.hpp"

#include <algorithm>

#include "base/huge_buffer.hpp"

namespace lily::cpu {

std::int8_t* tile_scratch(std::size_t bytes) {
  thread_local HugeBuffer memory;
  // A huge page or more: rows of tiles lie in many small ones.
  constexpr std::size_t kLeast = std::size_t{2} << 20;
  if (memory.size() < bytes) memory = HugeBuffer(std::max(bytes, kLeast), "operands of the tile kernels");
  return memory.as<std::int8_t>();
}

}  // namespace lily::cpu
