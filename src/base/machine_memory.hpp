// How much memory this process may have.
#pragma once

#include <cstdint>

namespace lily {

// Bytes: the machine's memory, or its control group's when that is less.
std::uint64_t machine_memory();

}  // namespace lily
