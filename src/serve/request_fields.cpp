// The table of request members; docs/server-api.md lists the same for readers.
#include "serve/request_fields.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "lily/error.hpp"
#include "serve/echo.hpp"

namespace lily::serve {
namespace {

enum class FieldUse {
  honoured,     // decides the answer
  ignored,      // sent by ordinary clients, says nothing to a local server
  unsupported,  // asks for something this server does not do
  unknown,
};

constexpr std::array<std::string_view, 31> kHonoured = {
    "add_generation_prompt",
    "add_vision_id",
    "chat_template_kwargs",
    "continue_final_message",
    "enable_thinking",
    "frequency_penalty",
    "ignore_eos",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "min_p",
    "modalities",
    "model",
    "n",
    "presence_penalty",
    "preserve_thinking",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
};

constexpr std::array<std::string_view, 10> kIgnored = {
    "metadata",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
    "verbosity",
};

// Older or hosted features by name, so that the reply can say so instead of "unknown".
constexpr std::array<std::string_view, 4> kUnsupported = {"audio", "function_call", "functions",
                                                          "web_search_options"};

constexpr std::size_t kNamesShown = 5;
constexpr std::size_t kNameShown = 30;

template <std::size_t kCount>
bool contains(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

FieldUse use_of(std::string_view name) {
  if (contains(kHonoured, name)) return FieldUse::honoured;
  if (contains(kIgnored, name)) return FieldUse::ignored;
  if (contains(kUnsupported, name)) return FieldUse::unsupported;
  return FieldUse::unknown;
}

}  // namespace

void check_fields(const Json& body) {
  std::string names;
  std::string first;
  std::size_t count = 0;
  for (const auto& [name, value] : body.as_object()) {
    const FieldUse use = use_of(name);
    if (use == FieldUse::unsupported && !value.is_null()) {
      throw Error(ErrorKind::unsupported, fmt::format("{} is not supported by this server", name), name);
    }
    if (use != FieldUse::unknown) continue;
    if (count++ == 0) first = shortened(name, kNameShown);
    if (count <= kNamesShown) names += (names.empty() ? "" : ", ") + shortened(name, kNameShown);
  }
  if (count == 0) return;
  if (count > kNamesShown) names += fmt::format(" and {} more", count - kNamesShown);
  throw Error(ErrorKind::bad_input, fmt::format("unknown {}: {}", count == 1 ? "field" : "fields", names),
              first);
}

}  // namespace lily::serve
