// Apart from the kernels, because what their files compile may use instructions that other machines lack.
#include "backend/cpu/tile_scratch.hpp"

#include "base/huge_buffer.hpp"

namespace lily::cpu {

std::int8_t* tile_scratch(std::size_t bytes) {
  thread_local HugeBuffer memory;
  if (memory.size() < bytes) memory = HugeBuffer(bytes, "operands of the tile kernels");
  return memory.as<std::int8_t>();
}

}  // namespace lily::cpu
