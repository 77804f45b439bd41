// Which kernels this machine can run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels.hpp"

namespace lily::cpu {

// The tables whose instructions this machine has, slowest first; never empty.
std::vector<const Kernels*> available_kernels();

// The best table, or the one named. Throws Error(unsupported) naming what this machine offers.
const Kernels& select_kernels(std::string_view name = {});

}  // namespace lily::cpu
