// The `quantization` object of config.json: what it says about a module.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/config.hpp"
#include "checkpoint/json_fields.hpp"

namespace lily::checkpoint {

// Reads `quantization` of the root object. Overrides are kept under their canonical module path.
std::optional<QuantizationConfig> read_quantization(const JsonFields& root);

// What the configuration says about a module (canonical path); nullopt: not quantized.
std::optional<Quantization> quantization_of(const QuantizationConfig& config, const std::string& module);

}  // namespace lily::checkpoint
