// The machine's limits: how fast it reads memory and multiplies integers with the kernels in use.
#pragma once

#include <span>

#include "backend/backend.hpp"
#include "backend/cpu/kernels.hpp"
#include "base/thread_pool.hpp"

namespace lily::cpu {

// Reads `weights` (or a buffer of its own when they are small) and multiplies for about a second in all.
// The best repetition counts: a limit is what the machine gives when nothing else runs.
backend::MachineLimits measure_limits(const Kernels& kernels, ThreadPool& pool,
                                      std::span<const std::byte> weights);

}  // namespace lily::cpu
