// config.json: the architecture is recognized, then every number is checked before anything uses it.
#include "checkpoint/config.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string_view>

#include "checkpoint/json_fields.hpp"
#include "checkpoint/quantization_config.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;
constexpr int kGroup = 64;  // rows of codes and of 8-bit activations are handled in groups of 64

[[noreturn]] void unsupported(const JsonFields& fields, std::string_view name, const std::string& message) {
  throw Error(ErrorKind::unsupported, fmt::format("{} {}", fields.place(name), message));
}

// The architecture by its own name, so that a user who points at another family reads what was found.
void check_family(const JsonFields& root, bool nested) {
  const std::string_view needed = nested ? "qwen3_5_moe" : "qwen3_5_moe_text";
  const std::string type = root.string("model_type");
  std::vector<std::string> architectures;
  if (const Json* const list = root.find("architectures")) {
    if (!list->is_array()) root.fail("architectures", "is no array");
    for (const Json& item : list->as_array()) {
      if (!item.is_string()) {
        root.fail("architectures", fmt::format("has the entry {}, a name is needed", shown(item)));
      }
      architectures.push_back(item.as_string());
    }
  }
  if (type != needed) {
    unsupported(root, "model_type",
                fmt::format("is {} (architectures [{}]), supported is qwen3_5_moe (Qwen3.5 and Qwen3.6 MoE)",
                            type, fmt::join(architectures, ", ")));
  }
  for (const std::string& name : architectures) {
    if (name == "Qwen3_5MoeForConditionalGeneration" || name == "Qwen3_5MoeForCausalLM") return;
  }
  unsupported(
      root, "architectures",
      fmt::format("is [{}], supported are Qwen3_5MoeForConditionalGeneration and Qwen3_5MoeForCausalLM",
                  fmt::join(architectures, ", ")));
}

// Switches that change the mathematics and have one supported position. `when_absent`: what leaving the field
// out means.
void check_switch(const JsonFields& fields, std::string_view name, bool needed, bool when_absent) {
  const bool found = fields.optional_boolean(name).value_or(when_absent);
  if (found != needed) unsupported(fields, name, fmt::format("is {}, only {} is supported", found, needed));
}

int multiple(const JsonFields& fields, std::string_view name, int step, int high) {
  const auto value = static_cast<int>(fields.integer(name, step, high));
  if (value % step != 0) fields.fail(name, fmt::format("is {}, a multiple of {} is needed", value, step));
  return value;
}

std::vector<model::LayerKind> read_layers(const JsonFields& text) {
  const auto count = static_cast<int>(text.integer("num_hidden_layers", 1, 1024));
  const std::optional<std::int64_t> interval = text.optional_integer("full_attention_interval", 1, 1024);
  std::vector<model::LayerKind> by_interval;
  for (int i = 0; interval && i < count; ++i) {
    const bool attention = (i + 1) % *interval == 0;
    by_interval.push_back(attention ? model::LayerKind::attention : model::LayerKind::delta_net);
  }

  const Json* const types = text.find("layer_types");
  if (types == nullptr) {
    if (!interval) text.fail_missing("layer_types");
    return by_interval;
  }
  if (!types->is_array()) text.fail("layer_types", "is no array");
  if (types->as_array().size() != static_cast<std::size_t>(count)) {
    text.fail("layer_types",
              fmt::format("has {} entries, num_hidden_layers is {}", types->as_array().size(), count));
  }
  std::vector<model::LayerKind> layers;
  for (const Json& type : types->as_array()) {
    if (type.is_string() && type.as_string() == "linear_attention") {
      layers.push_back(model::LayerKind::delta_net);
    } else if (type.is_string() && type.as_string() == "full_attention") {
      layers.push_back(model::LayerKind::attention);
    } else {
      text.fail(
          "layer_types",
          fmt::format("has the entry {}, supported are linear_attention and full_attention", shown(type)));
    }
  }
  if (interval && layers != by_interval) {
    text.fail("layer_types", fmt::format("contradicts full_attention_interval {}", *interval));
  }
  return layers;
}

// A field that some writers keep beside rope_parameters and some inside; two values must agree.
std::optional<double> rope_number(const JsonFields& text, const std::optional<JsonFields>& rope,
                                  std::string_view name, double low, double high) {
  const std::optional<double> outside = text.optional_number(name, low, high);
  const std::optional<double> inside = rope ? rope->optional_number(name, low, high) : std::nullopt;
  if (inside && outside && *inside != *outside) {
    text.fail(name, fmt::format("is {}, but rope_parameters.{} is {}", *outside, name, *inside));
  }
  return inside ? inside : outside;
}

void check_rope_type(const JsonFields& fields) {
  for (const std::string_view name : {"rope_type", "type"}) {
    const std::optional<std::string> type = fields.optional_string(name);
    if (type && *type != "default") {
      unsupported(fields, name, fmt::format("is {}, only default rope is supported", *type));
    }
  }
}

void read_rope(const JsonFields& text, model::Dimensions& dims) {
  const std::optional<JsonFields> rope = text.object("rope_parameters");
  if (rope) check_rope_type(*rope);
  if (const std::optional<JsonFields> scaling = text.object("rope_scaling")) check_rope_type(*scaling);

  const std::optional<double> theta = rope_number(text, rope, "rope_theta", 1, 1e12);
  // Libraries disagree on a default, and a wrong one only shows in long texts.
  if (!theta) (rope ? *rope : text).fail_missing("rope_theta");
  dims.rope_theta = *theta;

  const std::optional<double> factor = rope_number(text, rope, "partial_rotary_factor", 0, 1);
  if (!factor) (rope ? *rope : text).fail_missing("partial_rotary_factor");
  const double rotary = dims.head_dim * *factor;
  dims.rotary_dim = static_cast<int>(std::lround(rotary));
  if (dims.rotary_dim != rotary || dims.rotary_dim < 2 || dims.rotary_dim % 2 != 0) {
    text.fail("partial_rotary_factor",
              fmt::format("of {} rotates {} of {} dimensions, an even number of at least 2 is needed",
                          *factor, rotary, dims.head_dim));
  }
}

void read_attention(const JsonFields& text, model::Dimensions& dims) {
  dims.attention_heads = static_cast<int>(text.integer("num_attention_heads", 1, 1024));
  dims.kv_heads = static_cast<int>(text.integer("num_key_value_heads", 1, 1024));
  dims.head_dim = multiple(text, "head_dim", kGroup, 1024);
  if (dims.attention_heads % dims.kv_heads != 0) {
    text.fail("num_attention_heads", fmt::format("is {}, a multiple of num_key_value_heads {} is needed",
                                                 dims.attention_heads, dims.kv_heads));
  }
  read_rope(text, dims);
}

void read_delta_net(const JsonFields& text, model::Dimensions& dims) {
  dims.key_heads = static_cast<int>(text.integer("linear_num_key_heads", 1, 1024));
  dims.value_heads = static_cast<int>(text.integer("linear_num_value_heads", 1, 1024));
  dims.key_dim = multiple(text, "linear_key_head_dim", kGroup, 1024);
  dims.value_dim = multiple(text, "linear_value_head_dim", kGroup, 1024);
  dims.conv_kernel = static_cast<int>(text.integer("linear_conv_kernel_dim", 2, 16));
  if (dims.value_heads % dims.key_heads != 0) {
    text.fail("linear_num_value_heads", fmt::format("is {}, a multiple of linear_num_key_heads {} is needed",
                                                    dims.value_heads, dims.key_heads));
  }
}

void read_experts(const JsonFields& text, model::Dimensions& dims) {
  dims.experts = static_cast<int>(text.integer("num_experts", 1, 4096));
  dims.experts_per_token = static_cast<int>(text.integer("num_experts_per_tok", 1, dims.experts));
  dims.expert_size = multiple(text, "moe_intermediate_size", kGroup, 1 << 16);
  dims.shared_expert_size = multiple(text, "shared_expert_intermediate_size", kGroup, 1 << 16);
  check_switch(text, "norm_topk_prob", true, true);
  if (text.optional_integer("decoder_sparse_step", 1, 1024).value_or(1) != 1) {
    unsupported(text, "decoder_sparse_step", "is not 1: layers without experts are not supported");
  }
  const Json* const dense = text.find("mlp_only_layers");
  if (dense != nullptr && !(dense->is_array() && dense->as_array().empty())) {
    unsupported(text, "mlp_only_layers", "is not empty: layers without experts are not supported");
  }
}

model::Dimensions read_dimensions(const JsonFields& text) {
  model::Dimensions dims;
  dims.hidden_size = multiple(text, "hidden_size", kGroup, 1 << 16);
  dims.vocabulary = static_cast<int>(text.integer("vocab_size", 1, 1 << 22));
  dims.max_positions = static_cast<int>(text.integer("max_position_embeddings", 1, 1 << 24));
  const std::optional<double> epsilon = text.optional_number("rms_norm_eps", 1e-12, 0.1);
  if (!epsilon) text.fail_missing("rms_norm_eps");
  dims.rms_norm_eps = *epsilon;
  dims.layers = read_layers(text);
  if (dims.delta_net_layers() == 0) {
    unsupported(text, "layer_types", "has no linear_attention layer, at least one is needed");
  }
  read_attention(text, dims);
  read_delta_net(text, dims);
  read_experts(text, dims);

  const std::string activation = text.string("hidden_act");
  if (activation != "silu") {
    unsupported(text, "hidden_act", fmt::format("is {}, only silu is supported", activation));
  }
  check_switch(text, "attention_bias", false, false);
  check_switch(text, "attn_output_gate", true, true);
  check_switch(text, "tie_word_embeddings", false, false);
  return dims;
}

void check_folder(const std::filesystem::path& folder) {
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(folder, code);
  if (!std::filesystem::exists(status)) {
    throw Error(ErrorKind::not_found, fmt::format("{}: no such folder", folder.string()));
  }
  if (!std::filesystem::is_directory(status)) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: is a file; a checkpoint is a folder with config.json, tokenizer.json and "
                            "model*.safetensors",
                            folder.string()));
  }
}

std::vector<int> read_stop_ids(const JsonFields& root) {
  constexpr std::int64_t kMaxId = 0x7fffffff;
  const Json* const value = root.find("eos_token_id");
  if (value == nullptr) return {};
  if (!value->is_array()) return {static_cast<int>(root.integer("eos_token_id", 0, kMaxId))};
  std::vector<int> ids;
  for (const Json& item : value->as_array()) {
    const std::optional<std::int64_t> id = item.as_integer();
    if (!id || *id < 0 || *id > kMaxId) {
      root.fail("eos_token_id", fmt::format("has the entry {}, token ids are needed", shown(item)));
    }
    ids.push_back(static_cast<int>(*id));
  }
  return ids;
}

std::optional<float> optional_float(const JsonFields& root, std::string_view name, double low, double high) {
  const std::optional<double> value = root.optional_number(name, low, high);
  if (!value) return std::nullopt;
  return static_cast<float>(*value);
}

}  // namespace

Config read_config(const std::filesystem::path& folder) {
  check_folder(folder);
  const std::filesystem::path path = folder / "config.json";
  const Json json = read_json_file(path, kMaxConfigBytes);
  const JsonFields root(json, path.string(), "");
  // Text-only exports have the text model's fields at the top.
  const std::optional<JsonFields> text = root.object("text_config");
  check_family(root, text.has_value());
  if (text && text->string("model_type") != "qwen3_5_moe_text") {
    unsupported(*text, "model_type",
                fmt::format("is {}, supported is qwen3_5_moe_text", text->string("model_type")));
  }
  check_switch(root, "tie_word_embeddings", false, false);

  Config config;
  config.dimensions = read_dimensions(text ? *text : root);
  config.quantization = read_quantization(root);
  return config;
}

GenerationDefaults read_generation_defaults(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "generation_config.json";
  std::error_code code;
  if (!std::filesystem::exists(path, code)) return {};
  const Json json = read_json_file(path, kMaxConfigBytes);
  const JsonFields root(json, path.string(), "");
  GenerationDefaults defaults;
  defaults.eos_token_ids = read_stop_ids(root);
  defaults.do_sample = root.optional_boolean("do_sample");
  defaults.temperature = optional_float(root, "temperature", 0, 2);
  defaults.top_p = optional_float(root, "top_p", 0, 1);
  defaults.min_p = optional_float(root, "min_p", 0, 1);
  defaults.repetition_penalty = optional_float(root, "repetition_penalty", 1e-6, 10);
  if (const auto top_k = root.optional_integer("top_k", 0, 0x7fffffff))
    defaults.top_k = static_cast<int>(*top_k);
  return defaults;
}

}  // namespace lily::checkpoint
