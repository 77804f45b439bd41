// config.json and generation_config.json, read strictly: every architectural field is checked by name.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/dimensions.hpp"

namespace lily::checkpoint {

struct Quantization {
  int bits = 4;
  int group_size = 64;
};

// The `quantization` object: a global pair and overrides per module path (object, true or false).
struct QuantizationConfig {
  Quantization global;
  std::map<std::string, std::optional<Quantization>> overrides;  // nullopt: not quantized
};

struct Config {
  model::Dimensions dimensions;
  std::optional<QuantizationConfig> quantization;  // absent: an unquantized checkpoint
};

// Sampling defaults and stop ids of generation_config.json (the engine adds the family's own end tokens).
// Unset members were absent.
struct GenerationDefaults {
  std::vector<int> eos_token_ids;
  std::optional<bool> do_sample;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
  std::optional<int> top_k;
};

// Throws Error(bad_input | unsupported): the file, the field, the value found, the value needed. Other
// architectures are refused by their own name.
Config read_config(const std::filesystem::path& folder);
// An absent file gives empty defaults.
GenerationDefaults read_generation_defaults(const std::filesystem::path& folder);

}  // namespace lily::checkpoint
