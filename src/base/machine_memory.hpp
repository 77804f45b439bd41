// How much memory this process may have.
#pragma once

#include <cstdint>

namespace lily {

// Bytes: the machine's memory, or its control group's when that is less.
std::uint64_t machine_memory();

// Bytes of the machine that nobody uses now, not even for a cache; 0 where the system does not tell.
std::uint64_t free_memory();

}  // namespace lily
