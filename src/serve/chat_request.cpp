// Reads a chat completion request strictly: everything in it is honoured, known to mean nothing here, or
// refused.
#include "serve/chat_request.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "lily/error.hpp"
#include "serve/echo.hpp"
#include "serve/field_reader.hpp"
#include "serve/json_shape.hpp"
#include "serve/request_fields.hpp"
#include "serve/sampling_fields.hpp"
#include "serve/tool_choice.hpp"

namespace lily::serve {
namespace {

constexpr std::size_t kValueShown = 60;

[[noreturn]] void refuse(ErrorKind kind, const std::string& message, const std::string& param) {
  throw Error(kind, message, param);
}

Json parse_body(std::string_view text) {
  check_json_values(text);
  Json body = Json::parse(text);
  if (!body.is_object()) {
    refuse(ErrorKind::bad_input, fmt::format("the request body must be an object, not {}", body.kind_name()),
           "");
  }
  check_fields(body);
  // A null member means the default, whoever reads it later.
  auto& members = body.as_object();
  members.erase(
      std::remove_if(members.begin(), members.end(), [](const auto& m) { return m.second.is_null(); }),
      members.end());
  return body;
}

void check_model(const FieldReader& fields, std::string_view model_id) {
  const std::string* model = fields.string("model");
  if (model == nullptr || *model == model_id) return;
  refuse(ErrorKind::not_found,
         fmt::format("the model \"{}\" does not exist; served here: \"{}\"", shortened(*model, kValueShown),
                     model_id),
         "model");
}

// What OpenAI's interface offers beyond one answer of text, refused by name while it is not built.
void check_offered(const FieldReader& fields) {
  if (const auto n = fields.integer("n"); n && *n != 1) {
    refuse(*n < 1 ? ErrorKind::bad_input : ErrorKind::unsupported,
           fmt::format("n is {}; one answer per request is supported (n = 1)", *n), "n");
  }
  if (fields.boolean("logprobs").value_or(false)) {
    refuse(ErrorKind::unsupported, "logprobs are not supported by this server", "logprobs");
  }
  if (fields.integer("top_logprobs").value_or(0) != 0) {
    refuse(ErrorKind::unsupported, "logprobs are not supported by this server", "top_logprobs");
  }
  if (const Json* format = fields.object("response_format")) {
    const std::string* type = FieldReader(*format, "response_format.").string("type");
    if (type == nullptr) refuse(ErrorKind::bad_input, "response_format needs a type", "response_format.type");
    if (*type != "text") {
      const bool known = *type == "json_object" || *type == "json_schema";
      refuse(known ? ErrorKind::unsupported : ErrorKind::bad_input,
             fmt::format("response_format type \"{}\" is not supported; \"text\" is",
                         shortened(*type, kValueShown)),
             "response_format.type");
    }
  }
  if (const Json* modalities = fields.array("modalities")) {
    for (const Json& modality : modalities->as_array()) {
      if (modality.is_string() && modality.as_string() == "text") continue;
      refuse(ErrorKind::unsupported, "answers are text; modalities may only be [\"text\"]", "modalities");
    }
  }
}

void read_stream_options(const FieldReader& fields, ChatRequest& request) {
  request.stream = fields.boolean("stream").value_or(false);
  const Json* options = fields.object("stream_options");
  if (options == nullptr) return;
  if (!request.stream) {
    refuse(ErrorKind::bad_input, "stream_options needs \"stream\": true", "stream_options");
  }
  for (const auto& [name, value] : options->as_object()) {
    // include_obfuscation pads hosted streams against eavesdroppers; false is what is always done here.
    if (name == "include_usage" || name == "include_obfuscation" || value.is_null()) continue;
    const std::string shown = shortened(name, kValueShown);
    refuse(ErrorKind::bad_input, "unknown field in stream_options: " + shown, "stream_options." + shown);
  }
  const FieldReader reader(*options, "stream_options.");
  request.include_usage = reader.boolean("include_usage").value_or(false);
  if (reader.boolean("include_obfuscation").value_or(false)) {
    refuse(ErrorKind::unsupported, "stream obfuscation is not supported",
           "stream_options.include_obfuscation");
  }
}

// -1 and absence mean "to the end of the context"; 0 must never mean that.
std::optional<int> read_max_tokens(const FieldReader& fields) {
  const char* name = fields.find("max_completion_tokens") != nullptr ? "max_completion_tokens" : "max_tokens";
  const std::optional<std::int64_t> value = fields.integer(name);
  if (!value || *value == -1) return std::nullopt;
  if (*value < 1 || *value > std::numeric_limits<int>::max()) {
    refuse(
        ErrorKind::bad_input,
        fmt::format("{} is {}; it must be at least 1 and less than 2^31, or -1 for no limit", name, *value),
        name);
  }
  return static_cast<int>(*value);
}

std::vector<std::string> read_stop(const FieldReader& fields) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return {};
  if (stop->is_string()) {
    if (stop->as_string().empty()) refuse(ErrorKind::bad_input, "stop must not be empty", "stop");
    return {stop->as_string()};
  }
  if (!stop->is_array()) {
    refuse(ErrorKind::bad_input, fmt::format("stop must be a string or an array, not {}", stop->kind_name()),
           "stop");
  }
  std::vector<std::string> strings;
  for (const Json& item : stop->as_array()) {
    const std::string path = fmt::format("stop[{}]", strings.size());
    if (!item.is_string() || item.as_string().empty()) {
      refuse(ErrorKind::bad_input, path + " must be a string that is not empty", path);
    }
    strings.push_back(item.as_string());
  }
  return strings;
}

void check_template_options(const FieldReader& fields) {
  const Json* options = fields.object("chat_template_kwargs");
  if (options == nullptr) return;
  constexpr std::string_view kKnown[] = {"enable_thinking", "preserve_thinking", "add_vision_id"};
  for (const auto& [name, value] : options->as_object()) {
    if (std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown)) continue;
    const std::string shown = shortened(name, kValueShown);
    refuse(ErrorKind::bad_input, "the chat template has no option " + shown, "chat_template_kwargs." + shown);
  }
}

}  // namespace

ChatRequest parse_chat_request(std::string_view text, std::string_view model_id) {
  const Json body = parse_body(text);
  const FieldReader fields(body);
  check_model(fields, model_id);
  check_offered(fields);
  check_template_options(fields);

  ChatRequest request;
  read_stream_options(fields, request);
  GenerationRequest& generation = request.generation;
  ChatPrompt prompt = parse_chat_prompt(body);
  apply_tool_choice(fields, prompt, generation);
  generation.prompt = std::move(prompt);
  generation.sampling = read_sampling(fields);
  generation.max_tokens = read_max_tokens(fields);
  generation.stop_strings = read_stop(fields);
  generation.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  return request;
}

}  // namespace lily::serve
