// Prefix rules of the known converters.
#include "checkpoint/tensor_names.hpp"

#include <array>
#include <utility>

namespace lily::checkpoint {

std::string canonical_name(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPrefixes = {{
      {"language_model.model.", "model."},
      {"model.language_model.", "model."},
      {"language_model.lm_head", "lm_head"},
  }};
  for (const auto& [spelled, canonical] : kPrefixes) {
    if (name.starts_with(spelled)) return std::string(canonical) + std::string(name.substr(spelled.size()));
  }
  return std::string(name);
}

}  // namespace lily::checkpoint
