// Whether norm weights look like w or like 1 + w.
#pragma once

#include <filesystem>
#include <vector>

#include "model/tensors.hpp"

namespace lily::checkpoint {

// Throws Error(bad_input) when the norm weights contradict the layout: both conventions have the same shapes,
// and the wrong one gives fluent noise without any other sign. `norms` are the stored values of all norm
// tensors.
void check_norm_convention(const std::vector<std::vector<float>*>& norms, model::Layout layout,
                           const std::filesystem::path& folder);

}  // namespace lily::checkpoint
