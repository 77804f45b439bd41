// The parts of a layer that are the same for one token and for many.
#include "backend/cpu/forward.hpp"

#include <algorithm>
#include <cmath>

#include "backend/cpu/rope.hpp"

namespace lily::cpu {

int inner_columns(const LayerWeights& layer) {
  int columns = 0;
  for (const PackedMatrix& panel : layer.mixer_out) columns += panel.groups * kGroup;
  return columns;
}

ScratchSizes scratch_sizes(const Context& context) {
  ScratchSizes sizes;
  for (const LayerWeights& layer : context.weights.layers) {
    sizes.mixer_rows = std::max(sizes.mixer_rows, padded_rows(layer.mixer_in));
    sizes.router_rows = std::max(sizes.router_rows, padded_rows(layer.router));
    sizes.inner_columns = std::max(sizes.inner_columns, inner_columns(layer));
    sizes.panels = std::max(sizes.panels, static_cast<int>(layer.mixer_out.size()));
    for (const PackedMatrix* matrix : {&layer.gate_up.front(), &layer.gate_up.back()}) {
      sizes.expert_rows = std::max(sizes.expert_rows, padded_rows(*matrix));
    }
    for (const PackedMatrix* matrix : {&layer.down.front(), &layer.down.back()}) {
      sizes.expert_columns = std::max(sizes.expert_columns, matrix->groups * kGroup);
    }
  }
  return sizes;
}

void delta_net_gates(const LayerWeights& layer, const float* mixed, int first, int last, float* alpha,
                     float* beta) {
  for (int h = first; h < last; ++h) {
    const float a = mixed[layer.a_row + h] + layer.dt_bias[static_cast<std::size_t>(h)];
    const float softplus = a > 20 ? a : std::log1p(std::exp(a));
    alpha[h] = std::exp(layer.decay[static_cast<std::size_t>(h)] * softplus);
    beta[h] = 1 / (1 + std::exp(-mixed[layer.b_row + h]));
  }
}

void prepare_attention(const Context& context, const LayerWeights& layer, const CpuSequence& sequence,
                       int attention_layer, int kv_head, int position, const float* cosines,
                       const float* sines, float* mixed, float* queries) {
  const model::Dimensions& dims = context.dims;
  const Kernels& kernels = context.kernels;
  const auto eps = static_cast<float>(dims.rms_norm_eps);
  const float scale = 1 / std::sqrt(static_cast<float>(dims.head_dim));
  const int first = kv_head * dims.queries_per_kv();
  for (int h = first; h < first + dims.queries_per_kv(); ++h) {
    float* query = queries + static_cast<std::ptrdiff_t>(h) * dims.head_dim;
    kernels.rms_norm(mixed + static_cast<std::ptrdiff_t>(h) * 2 * dims.head_dim, layer.q_norm.data(), eps,
                     dims.head_dim, query);
    apply_rope(cosines, sines, dims.rotary_dim, query);
    for (int d = 0; d < dims.head_dim; ++d) query[d] *= scale;
  }
  float* key = mixed + layer.k_row + static_cast<std::ptrdiff_t>(kv_head) * dims.head_dim;
  kernels.rms_norm(key, layer.k_norm.data(), eps, dims.head_dim, key);
  apply_rope(cosines, sines, dims.rotary_dim, key);
  const float* value = mixed + layer.v_row + static_cast<std::ptrdiff_t>(kv_head) * dims.head_dim;
  kernels.store_kv(sequence.kv(attention_layer, kv_head), dims.head_dim, position, key, value);
}

void finish_attention(const Context& context, const float* mixed, int head, float sum, float* value) {
  const int head_dim = context.dims.head_dim;
  const float inverse = 1 / sum;
  for (int d = 0; d < head_dim; ++d) value[d] *= inverse;
  context.kernels.sigmoid_multiply(mixed + static_cast<std::ptrdiff_t>(2 * head + 1) * head_dim, head_dim,
                                   value);
}

}  // namespace lily::cpu
