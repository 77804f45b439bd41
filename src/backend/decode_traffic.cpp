// Bytes one decode step must move.
#include "backend/decode_traffic.hpp"

namespace lily::backend {
namespace {

constexpr double kVectorValueBytes = 2;

double bytes(const checkpoint::Matrix& matrix) { return static_cast<double>(matrix.stored_bytes()); }
double bytes(const std::vector<float>& vector) {
  return kVectorValueBytes * static_cast<double>(vector.size());
}

// Bytes of a layer with `expert_share` of its routed experts.
double layer_bytes(const checkpoint::Layer& layer, double expert_share) {
  double sum = bytes(layer.input_norm) + bytes(layer.post_attention_norm);
  if (layer.attention) {
    const checkpoint::Attention& a = *layer.attention;
    sum += bytes(a.q_proj) + bytes(a.k_proj) + bytes(a.v_proj) + bytes(a.o_proj) + bytes(a.q_norm) +
           bytes(a.k_norm);
  }
  if (layer.delta_net) {
    const checkpoint::DeltaNet& d = *layer.delta_net;
    sum += bytes(d.in_proj_qkv) + bytes(d.in_proj_z) + bytes(d.in_proj_b) + bytes(d.in_proj_a) +
           bytes(d.out_proj) + bytes(d.convolution) + bytes(d.a_log) + bytes(d.dt_bias) + bytes(d.norm);
  }
  const checkpoint::MixtureOfExperts& m = layer.moe;
  sum += bytes(m.router) + bytes(m.shared_gate_proj) + bytes(m.shared_up_proj) + bytes(m.shared_down_proj) +
         bytes(m.shared_expert_gate);
  return sum + expert_share * (bytes(m.gate_proj) + bytes(m.up_proj) + bytes(m.down_proj));
}

}  // namespace

DecodeTraffic decode_traffic(const checkpoint::Checkpoint& checkpoint, const StateFormat& format,
                             int position) {
  const model::Dimensions& dims = checkpoint.dimensions();
  const model::StateSizes sizes = model::state_sizes(dims);
  const double expert_share = static_cast<double>(dims.experts_per_token) / dims.experts;

  DecodeTraffic traffic;
  traffic.weight_bytes = bytes(checkpoint.embedding()) / dims.vocabulary + bytes(checkpoint.head()) +
                         bytes(checkpoint.final_norm());
  for (const checkpoint::Layer& layer : checkpoint.layers()) {
    traffic.weight_bytes += layer_bytes(layer, expert_share);
  }
  const double window = static_cast<double>(sizes.conv_window);
  const double window_row = window / (dims.conv_kernel - 1);  // of all layers: what a step adds
  traffic.state_bytes = 2.0 * sizeof(float) * static_cast<double>(sizes.delta_net) +
                        format.window_bytes * (window + window_row);
  traffic.kv_bytes = format.kv_bytes * static_cast<double>(sizes.kv_per_token) * (position + 1.0);
  return traffic;
}

std::uint64_t stored_weight_bytes(const checkpoint::Checkpoint& checkpoint) {
  double sum = bytes(checkpoint.embedding()) + bytes(checkpoint.head()) + bytes(checkpoint.final_norm());
  for (const checkpoint::Layer& layer : checkpoint.layers()) sum += layer_bytes(layer, 1.0);
  return static_cast<std::uint64_t>(sum);
}

}  // namespace lily::backend
