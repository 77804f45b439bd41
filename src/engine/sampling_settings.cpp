// Sampling options, checked and completed.
#include "engine/sampling_settings.hpp"

#include <fmt/format.h>

#include <random>

#include "lily/error.hpp"

namespace lily::engine {
namespace {

constexpr float kMaxTemperature = 2;
constexpr float kMaxRepetitionPenalty = 10;
constexpr float kMaxCountPenalty = 2;  // presence and frequency
constexpr float kMaxBias = 100;

// Written so that NaN fails.
float in_range(float value, float low, float high, const char* name) {
  if (value >= low && value <= high) return value;
  throw Error(ErrorKind::bad_input, fmt::format("{} is {}; it must be from {} to {}", name, value, low, high),
              name);
}

float positive_up_to(float value, float high, const char* name) {
  if (value > 0 && value <= high) return value;
  throw Error(ErrorKind::bad_input,
              fmt::format("{} is {}; it must be above 0 and at most {}", name, value, high), name);
}

int checked_top_k(int value) {
  if (value >= -1) return std::max(value, 0);
  throw Error(ErrorKind::bad_input,
              fmt::format("top_k is {}; it must be at least 0 (0 or -1: keep all tokens)", value), "top_k");
}

void check_bias(const std::map<TokenId, float>& logit_bias, std::size_t vocabulary) {
  for (const auto& [id, bias] : logit_bias) {
    if (id < 0 || static_cast<std::size_t>(id) >= vocabulary) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("logit_bias names token {}; ids run from 0 to {}", id, vocabulary - 1),
                  "logit_bias");
    }
    in_range(bias, -kMaxBias, kMaxBias, "logit_bias");
  }
}

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

}  // namespace

SamplingSettings resolve_sampling(const SamplingOptions& request,
                                  const checkpoint::GenerationDefaults& defaults, std::size_t vocabulary) {
  const float default_temperature =
      defaults.do_sample.value_or(true) ? defaults.temperature.value_or(1.0F) : 0.0F;
  SamplingSettings settings;
  settings.temperature =
      in_range(request.temperature.value_or(default_temperature), 0, kMaxTemperature, "temperature");
  settings.top_k = checked_top_k(request.top_k.value_or(defaults.top_k.value_or(0)));
  settings.top_p = in_range(request.top_p.value_or(defaults.top_p.value_or(1.0F)), 0, 1, "top_p");
  settings.min_p = in_range(request.min_p.value_or(defaults.min_p.value_or(0.0F)), 0, 1, "min_p");
  settings.repetition_penalty =
      positive_up_to(request.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0F)),
                     kMaxRepetitionPenalty, "repetition_penalty");
  settings.presence_penalty = in_range(request.presence_penalty.value_or(0.0F), -kMaxCountPenalty,
                                       kMaxCountPenalty, "presence_penalty");
  settings.frequency_penalty = in_range(request.frequency_penalty.value_or(0.0F), -kMaxCountPenalty,
                                        kMaxCountPenalty, "frequency_penalty");
  check_bias(request.logit_bias, vocabulary);
  settings.logit_bias = request.logit_bias;
  settings.seed = request.seed ? *request.seed : random_seed();
  return settings;
}

SamplingOptions SamplingSettings::as_options() const {
  SamplingOptions options;
  options.temperature = temperature;
  options.top_k = top_k;
  options.top_p = top_p;
  options.min_p = min_p;
  options.repetition_penalty = repetition_penalty;
  options.presence_penalty = presence_penalty;
  options.frequency_penalty = frequency_penalty;
  options.logit_bias = logit_bias;
  options.seed = seed;
  return options;
}

}  // namespace lily::engine
