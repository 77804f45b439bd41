// Bits and group size per module path, as MLX writes them.
#include "checkpoint/quantization_config.hpp"

#include <fmt/format.h>

#include <utility>

#include "checkpoint/tensor_names.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

Quantization read_pair(const JsonFields& fields) {
  const std::string mode = fields.optional_string("mode").value_or("affine");
  if (mode != "affine") {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is {}, only affine is supported", fields.place("mode"), mode));
  }
  Quantization pair;
  pair.bits = static_cast<int>(fields.integer("bits", 1, 64));
  if (pair.bits != 4 && pair.bits != 8) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is {}, supported are 4 and 8", fields.place("bits"), pair.bits));
  }
  pair.group_size = static_cast<int>(fields.integer("group_size", 1, 1 << 20));
  if (pair.group_size != 32 && pair.group_size != 64 && pair.group_size != 128) {
    throw Error(ErrorKind::unsupported, fmt::format("{} is {}, supported are 32, 64 and 128",
                                                    fields.place("group_size"), pair.group_size));
  }
  return pair;
}

bool equal(const std::optional<Quantization>& a, const std::optional<Quantization>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->bits == b->bits && a->group_size == b->group_size;
}

}  // namespace

std::optional<QuantizationConfig> read_quantization(const JsonFields& root) {
  const std::optional<JsonFields> object = root.object("quantization");
  if (!object) {
    // Other quantizers announce themselves here; MLX only repeats `quantization`, which then decides.
    if (const std::optional<JsonFields> other = root.object("quantization_config")) {
      if (const std::optional<std::string> method = other->optional_string("quant_method")) {
        throw Error(ErrorKind::unsupported,
                    fmt::format("{} is {}, supported are MLX affine quantization and unquantized weights",
                                other->place("quant_method"), *method));
      }
    }
    return std::nullopt;
  }

  QuantizationConfig config;
  config.global = read_pair(*object);
  for (const auto& [name, value] : object->value().as_object()) {
    std::optional<Quantization> pair;
    if (value.is_object()) {
      pair = read_pair(JsonFields(value, root.file(), "quantization." + name));
    } else if (value.is_boolean()) {
      if (value.as_boolean()) pair = config.global;
    } else {
      continue;  // bits, group_size, mode and whatever else a converter notes
    }
    const auto [place, inserted] = config.overrides.emplace(canonical_name(name), pair);
    if (!inserted && !equal(place->second, pair)) {
      object->fail(name, "contradicts another override for the same module under a different prefix");
    }
  }
  return config;
}

std::optional<Quantization> quantization_of(const QuantizationConfig& config, const std::string& module) {
  const auto found = config.overrides.find(module);
  return found == config.overrides.end() ? config.global : found->second;
}

}  // namespace lily::checkpoint
