// The list of tensors, written once for both layouts.
#include "model/tensors.hpp"

#include <fmt/format.h>

#include <utility>

namespace lily::model {
namespace {

using Shape = std::vector<std::int64_t>;

class TensorList {
 public:
  TensorList(const Dimensions& dims, Layout layout) : dims_(dims), layout_(layout) {}

  std::vector<TensorSpec> build() && {
    const std::int64_t hidden = dims_.hidden_size;
    const bool mlx = layout_ == Layout::mlx;
    const std::string text = mlx ? "language_model.model." : "model.language_model.";
    add(text + "embed_tokens.weight", {dims_.vocabulary, hidden}, TensorKind::matrix);
    add(mlx ? "language_model.lm_head.weight" : "lm_head.weight", {dims_.vocabulary, hidden},
        TensorKind::matrix);
    add(text + "norm.weight", {hidden}, TensorKind::norm);
    for (int i = 0; i < dims_.layer_count(); ++i) {
      const std::string layer = fmt::format("{}layers.{}.", text, i);
      add(layer + "input_layernorm.weight", {hidden}, TensorKind::norm);
      add(layer + "post_attention_layernorm.weight", {hidden}, TensorKind::norm);
      if (dims_.layers[static_cast<std::size_t>(i)] == LayerKind::delta_net) {
        add_delta_net(layer + "linear_attn.");
      } else {
        add_attention(layer + "self_attn.");
      }
      add_experts(layer + "mlp.");
    }
    return std::move(tensors_);
  }

 private:
  void add(std::string name, Shape shape, TensorKind kind) {
    tensors_.push_back({std::move(name), std::move(shape), kind});
  }

  void add_attention(const std::string& prefix) {
    const std::int64_t hidden = dims_.hidden_size;
    add(prefix + "q_proj.weight", {dims_.query_gate_rows(), hidden}, TensorKind::matrix);
    add(prefix + "k_proj.weight", {dims_.kv_rows(), hidden}, TensorKind::matrix);
    add(prefix + "v_proj.weight", {dims_.kv_rows(), hidden}, TensorKind::matrix);
    add(prefix + "o_proj.weight", {hidden, dims_.attention_rows()}, TensorKind::matrix);
    add(prefix + "q_norm.weight", {dims_.head_dim}, TensorKind::norm);
    add(prefix + "k_norm.weight", {dims_.head_dim}, TensorKind::norm);
  }

  void add_delta_net(const std::string& prefix) {
    const std::int64_t hidden = dims_.hidden_size;
    const std::int64_t channels = dims_.conv_channels();
    const std::int64_t kernel = dims_.conv_kernel;
    add(prefix + "in_proj_qkv.weight", {channels, hidden}, TensorKind::matrix);
    add(prefix + "in_proj_z.weight", {dims_.value_rows(), hidden}, TensorKind::matrix);
    add(prefix + "in_proj_a.weight", {dims_.value_heads, hidden}, TensorKind::matrix);
    add(prefix + "in_proj_b.weight", {dims_.value_heads, hidden}, TensorKind::matrix);
    add(prefix + "out_proj.weight", {hidden, dims_.value_rows()}, TensorKind::matrix);
    const bool mlx = layout_ == Layout::mlx;
    add(prefix + "conv1d.weight", mlx ? Shape{channels, kernel, 1} : Shape{channels, 1, kernel},
        TensorKind::convolution);
    add(prefix + "A_log", {dims_.value_heads}, TensorKind::plain_vector);
    add(prefix + "dt_bias", {dims_.value_heads}, TensorKind::plain_vector);
    add(prefix + "norm.weight", {dims_.value_dim}, TensorKind::plain_vector);
  }

  void add_experts(const std::string& prefix) {
    const std::int64_t hidden = dims_.hidden_size;
    const std::int64_t experts = dims_.experts;
    const std::int64_t size = dims_.expert_size;
    const std::int64_t shared = dims_.shared_expert_size;
    add(prefix + "gate.weight", {experts, hidden}, TensorKind::matrix);
    if (layout_ == Layout::mlx) {
      add(prefix + "switch_mlp.gate_proj.weight", {experts, size, hidden}, TensorKind::matrix);
      add(prefix + "switch_mlp.up_proj.weight", {experts, size, hidden}, TensorKind::matrix);
      add(prefix + "switch_mlp.down_proj.weight", {experts, hidden, size}, TensorKind::matrix);
    } else {
      add(prefix + "experts.gate_up_proj", {experts, 2 * size, hidden}, TensorKind::matrix);
      add(prefix + "experts.down_proj", {experts, hidden, size}, TensorKind::matrix);
    }
    add(prefix + "shared_expert.gate_proj.weight", {shared, hidden}, TensorKind::matrix);
    add(prefix + "shared_expert.up_proj.weight", {shared, hidden}, TensorKind::matrix);
    add(prefix + "shared_expert.down_proj.weight", {hidden, shared}, TensorKind::matrix);
    add(prefix + "shared_expert_gate.weight", {1, hidden}, TensorKind::matrix);
  }

  const Dimensions& dims_;
  Layout layout_;
  std::vector<TensorSpec> tensors_;
};

}  // namespace

std::vector<TensorSpec> expected_tensors(const Dimensions& dims, Layout layout) {
  return TensorList(dims, layout).build();
}

bool is_ignored_tensor(const std::string& name) {
  // MTP weights have no agreed prefix in converted checkpoints, so the word anywhere decides.
  return name.starts_with("model.visual.") || name.starts_with("vision_tower.") ||
         name.find("mtp.") != std::string::npos;
}

}  // namespace lily::model
