// The memory of an engine, added up before it is taken.
#pragma once

#include <cstdint>
#include <functional>

#include "model/dimensions.hpp"

namespace lily::engine {

struct MemoryNeeds {
  std::uint64_t weights = 0;
  std::function<std::uint64_t(int context)> sequence;  // state of one sequence; grows with the context
  std::uint64_t scratch = 0;
};

// The requested context, or 32,768 (less when the model's limit is less) for 0.
int resolve_context(const model::Dimensions& dims, int requested);

// Throws Error(out_of_memory) with all numbers in MiB and the largest context that would fit, and
// Error(unsupported) for a context beyond the model's positions.
void check_plan(const MemoryNeeds& needs, const model::Dimensions& dims, int context,
                std::uint64_t available);

}  // namespace lily::engine
