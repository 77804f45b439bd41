// Reads temperature and its kin.
#include "serve/sampling_fields.hpp"

#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "lily/error.hpp"
#include "serve/echo.hpp"

namespace lily::serve {
namespace {

std::optional<float> read_float(const FieldReader& fields, std::string_view name) {
  const std::optional<double> value = fields.number(name);
  if (!value) return std::nullopt;
  return static_cast<float>(*value);
}

// Clients of other servers write "off" as -1 or 0.
std::optional<int> read_top_k(const FieldReader& fields) {
  const std::optional<std::int64_t> value = fields.integer("top_k");
  if (!value) return std::nullopt;
  if (*value == -1) return 0;
  if (*value < -1 || *value > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("top_k is {}; it must be 0 or -1 (off) or positive", *value), "top_k");
  }
  return static_cast<int>(*value);
}

std::map<TokenId, float> read_logit_bias(const FieldReader& fields) {
  std::map<TokenId, float> biases;
  const Json* object = fields.object("logit_bias");
  if (object == nullptr) return biases;
  for (const auto& [key, value] : object->as_object()) {
    const std::string path = "logit_bias." + shortened(key, 30);
    TokenId id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0) {
      throw Error(ErrorKind::bad_input, path + " is no token id", path);
    }
    if (!value.is_number()) {
      throw Error(ErrorKind::bad_input, fmt::format("{} must be a number, not {}", path, value.kind_name()),
                  path);
    }
    biases[id] = static_cast<float>(value.as_double());
  }
  return biases;
}

}  // namespace

SamplingOptions read_sampling(const FieldReader& fields) {
  SamplingOptions sampling;
  sampling.temperature = read_float(fields, "temperature");
  sampling.top_k = read_top_k(fields);
  sampling.top_p = read_float(fields, "top_p");
  sampling.min_p = read_float(fields, "min_p");
  sampling.repetition_penalty = read_float(fields, "repetition_penalty");
  sampling.presence_penalty = read_float(fields, "presence_penalty");
  sampling.frequency_penalty = read_float(fields, "frequency_penalty");
  sampling.logit_bias = read_logit_bias(fields);
  // Every 64-bit integer names a stream of its own, negative ones too.
  if (const auto seed = fields.integer("seed")) sampling.seed = static_cast<std::uint64_t>(*seed);
  return sampling;
}

}  // namespace lily::serve
