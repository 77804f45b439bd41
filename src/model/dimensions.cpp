// Counts derived from the dimensions: state of a sequence and work of a token.
#include "model/dimensions.hpp"

#include <algorithm>

namespace lily::model {
namespace {

double product(int rows, int columns) { return static_cast<double>(rows) * columns; }

}  // namespace

int Dimensions::delta_net_layers() const {
  return static_cast<int>(std::count(layers.begin(), layers.end(), LayerKind::delta_net));
}

int Dimensions::attention_layers() const { return layer_count() - delta_net_layers(); }

StateSizes state_sizes(const Dimensions& dims) {
  const std::int64_t delta_net_layers = dims.delta_net_layers();
  const std::int64_t attention_layers = dims.attention_layers();
  StateSizes sizes;
  sizes.delta_net = delta_net_layers * dims.value_heads * dims.value_dim * dims.key_dim;
  sizes.conv_window = delta_net_layers * (dims.conv_kernel - 1) * dims.conv_channels();
  sizes.kv_per_token = attention_layers * 2 * dims.kv_rows();
  return sizes;
}

TokenCost token_cost(const Dimensions& dims) {
  const int hidden = dims.hidden_size;
  const double attention =
      product(dims.query_gate_rows() + 2 * dims.kv_rows(), hidden) + product(hidden, dims.attention_rows());
  const double delta_net = product(dims.conv_channels() + dims.value_rows() + 2 * dims.value_heads, hidden) +
                           product(hidden, dims.value_rows());
  const double experts = 3 * product(dims.experts_per_token * dims.expert_size, hidden);
  const double shared_expert = 3 * product(dims.shared_expert_size, hidden);
  const double router_and_gate = product(dims.experts + 1, hidden);
  const double layers = dims.attention_layers() * attention + dims.delta_net_layers() * delta_net +
                        dims.layer_count() * (experts + shared_expert + router_and_gate);

  TokenCost cost;
  cost.decode_multiply_adds = layers + product(dims.vocabulary, hidden);
  cost.prefill_operations = 2 * layers;
  // Scores and weighted sum: one multiply-add each per query head, dimension and cached token.
  cost.attention_operations_per_cached_token = 4.0 * dims.attention_rows() * dims.attention_layers();
  return cost;
}

}  // namespace lily::model
