// The presets, and the real checkpoint's tensors and configuration derived from dimensions.
#include "checkpoint/synthetic_plan.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "checkpoint/affine_layout.hpp"
#include "lily/error.hpp"
#include "model/tensors.hpp"

namespace lily::checkpoint {
namespace {

constexpr Quantization kQuantization = {4, 64};

model::Dimensions common_dimensions(int layers) {
  model::Dimensions dims;
  dims.max_positions = 262144;
  dims.rms_norm_eps = 1e-6;
  for (int i = 0; i < layers; ++i) {
    dims.layers.push_back((i + 1) % 4 == 0 ? model::LayerKind::attention : model::LayerKind::delta_net);
  }
  dims.attention_heads = 16;
  dims.kv_heads = 2;
  dims.head_dim = 256;
  dims.rotary_dim = 64;
  dims.rope_theta = 1e7;
  dims.key_dim = 128;
  dims.value_dim = 128;
  dims.conv_kernel = 4;
  dims.experts_per_token = 8;
  return dims;
}

bool ends_with_module(const std::string& name, const char* module) {
  return name.ends_with(fmt::format("{}.weight", module));
}

// Standard deviation of a matrix's weights. 1 / sqrt(inputs) keeps a normalized vector at rms 1, so each of
// the two halves of a layer adds about half an rms to the residual, which grows from 1 to about 5 over 40
// layers.
float deviation_of(const std::string& name, std::int64_t columns) {
  const auto unit = static_cast<float>(1 / std::sqrt(static_cast<double>(columns)));
  if (ends_with_module(name, "embed_tokens")) return 1;
  if (ends_with_module(name, "lm_head")) return 2.5F * unit;   // logits as spread as a trained model's
  if (ends_with_module(name, "mlp.gate")) return 1.5F * unit;  // clear winners, all experts in use
  return unit;
}

SyntheticKind vector_kind(const model::TensorSpec& spec) {
  if (spec.kind == model::TensorKind::convolution) return SyntheticKind::convolution;
  if (spec.name.ends_with("A_log")) return SyntheticKind::a_log;
  if (spec.name.ends_with("dt_bias")) return SyntheticKind::dt_bias;
  return SyntheticKind::norm;
}

void add_quantized(std::vector<SyntheticTensor>& tensors, const model::TensorSpec& spec,
                   std::uint64_t stream) {
  const std::string module = spec.name.substr(0, spec.name.rfind('.'));
  const Quantization quantization = converted_quantization(module, kQuantization);
  const float deviation = deviation_of(spec.name, spec.shape.back());
  std::vector<OutputTensor> outputs = affine_tensors(spec, quantization);
  const auto add = [&](OutputTensor& output, SyntheticKind kind, std::uint64_t own_stream) {
    tensors.push_back({std::move(output), kind, own_stream, quantization.bits, deviation});
  };
  add(outputs[0], SyntheticKind::codes, 2 * stream);
  add(outputs[1], SyntheticKind::scales, 2 * stream + 1);
  add(outputs[2], SyntheticKind::biases, 2 * stream + 1);
}

Json text_config(const model::Dimensions& dims, int end_of_text) {
  Json layer_types = Json::array();
  for (const model::LayerKind kind : dims.layers) {
    layer_types.as_array().push_back(
        Json::string(kind == model::LayerKind::attention ? "full_attention" : "linear_attention"));
  }
  const double partial = static_cast<double>(dims.rotary_dim) / dims.head_dim;
  Json rope =
      Json::object({{"mrope_interleaved", Json::boolean(true)},
                    {"mrope_section", Json::array({Json::integer(11), Json::integer(11), Json::integer(10)})},
                    {"partial_rotary_factor", Json::real(partial)},
                    {"rope_theta", Json::integer(std::lround(dims.rope_theta))},
                    {"rope_type", Json::string("default")}});
  return Json::object({
      {"attention_bias", Json::boolean(false)},
      {"attention_dropout", Json::real(0)},
      {"attn_output_gate", Json::boolean(true)},
      {"bos_token_id", Json::integer(end_of_text)},
      {"dtype", Json::string("bfloat16")},
      {"eos_token_id", Json::integer(end_of_text)},
      {"full_attention_interval", Json::integer(4)},
      {"head_dim", Json::integer(dims.head_dim)},
      {"hidden_act", Json::string("silu")},
      {"hidden_size", Json::integer(dims.hidden_size)},
      {"layer_types", std::move(layer_types)},
      {"linear_conv_kernel_dim", Json::integer(dims.conv_kernel)},
      {"linear_key_head_dim", Json::integer(dims.key_dim)},
      {"linear_num_key_heads", Json::integer(dims.key_heads)},
      {"linear_num_value_heads", Json::integer(dims.value_heads)},
      {"linear_value_head_dim", Json::integer(dims.value_dim)},
      {"mamba_ssm_dtype", Json::string("float32")},
      {"max_position_embeddings", Json::integer(dims.max_positions)},
      {"model_type", Json::string("qwen3_5_moe_text")},
      {"moe_intermediate_size", Json::integer(dims.expert_size)},
      {"num_attention_heads", Json::integer(dims.attention_heads)},
      {"num_experts", Json::integer(dims.experts)},
      {"num_experts_per_tok", Json::integer(dims.experts_per_token)},
      {"num_hidden_layers", Json::integer(dims.layer_count())},
      {"num_key_value_heads", Json::integer(dims.kv_heads)},
      {"pad_token_id", Json()},
      {"partial_rotary_factor", Json::real(partial)},
      {"rms_norm_eps", Json::real(dims.rms_norm_eps)},
      {"rope_parameters", std::move(rope)},
      {"shared_expert_intermediate_size", Json::integer(dims.shared_expert_size)},
      {"tie_word_embeddings", Json::boolean(false)},
      {"use_cache", Json::boolean(true)},
      {"vocab_size", Json::integer(dims.vocabulary)},
  });
}

}  // namespace

SyntheticPreset synthetic_preset(const std::string& name) {
  SyntheticPreset preset;
  if (name == "35b") {
    preset.dimensions = common_dimensions(40);
    preset.dimensions.hidden_size = 2048;
    preset.dimensions.vocabulary = 248320;
    preset.dimensions.key_heads = 16;
    preset.dimensions.value_heads = 32;
    preset.dimensions.experts = 256;
    preset.dimensions.expert_size = 512;
    preset.dimensions.shared_expert_size = 512;
    preset.shard_bytes = std::uint64_t{5} << 30;
    preset.first_control_id = 248044;
  } else if (name == "tiny") {
    preset.dimensions = common_dimensions(4);
    preset.dimensions.hidden_size = 128;
    preset.dimensions.vocabulary = 512;
    preset.dimensions.key_heads = 4;
    preset.dimensions.value_heads = 8;
    preset.dimensions.experts = 32;
    preset.dimensions.expert_size = 64;
    preset.dimensions.shared_expert_size = 64;
    preset.shard_bytes = std::uint64_t{2} << 20;
    preset.first_control_id = 512 - 33;
  } else {
    throw Error(ErrorKind::bad_input, fmt::format("preset is {}, there are 35b and tiny", name));
  }
  return preset;
}

std::vector<SyntheticTensor> synthetic_tensors(const model::Dimensions& dims) {
  std::vector<SyntheticTensor> tensors;
  std::uint64_t stream = 0;
  for (const model::TensorSpec& spec : model::expected_tensors(dims, model::Layout::mlx)) {
    if (spec.kind == model::TensorKind::matrix) {
      add_quantized(tensors, spec, stream);
    } else {
      tensors.push_back({{spec.name, "BF16", spec.shape}, vector_kind(spec), 2 * stream, 0, 0});
    }
    ++stream;
  }
  return tensors;
}

Json synthetic_config(const model::Dimensions& dims, int end_of_text) {
  return Json::object({
      {"architectures", Json::array({Json::string("Qwen3_5MoeForConditionalGeneration")})},
      {"model_type", Json::string("qwen3_5_moe")},
      {"tie_word_embeddings", Json::boolean(false)},
      {"text_config", text_config(dims, end_of_text)},
      {"quantization", quantization_object(dims, kQuantization)},
      {"quantization_config", quantization_object(dims, kQuantization)},
  });
}

}  // namespace lily::checkpoint
