// Gated attention.
#include "backend/reference/attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/reference/norms.hpp"
#include "backend/reference/rope.hpp"
#include "backend/reference/scalar.hpp"

namespace lily::reference {
namespace {

// scores[s] = softmax over s of (query . keys[s]) / sqrt(head_dim)
void attention_weights(std::span<const float> query, const float* keys, std::size_t stride,
                       std::span<double> scores) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(query.size()));
  double largest = -INFINITY;
  for (std::size_t s = 0; s < scores.size(); ++s) {
    scores[s] = scale * dot(query.data(), keys + s * stride, query.size());
    largest = std::max(largest, scores[s]);
  }
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - largest);
  for (double& score : scores) score /= total;
}

}  // namespace

void add_attention(const Context& context, const model::Dimensions& dims,
                   const checkpoint::Attention& weights, const Rows& h, int position, KeyValueCache cache,
                   std::span<double> scores, Rows& residual) {
  const auto head_dim = static_cast<std::size_t>(dims.head_dim);
  const auto kv_rows = static_cast<std::size_t>(dims.kv_rows());
  const std::size_t capacity = cache.keys.size() / kv_rows;

  Rows query_gate = project(context, weights.q_proj, 0, h);
  Rows keys = project(context, weights.k_proj, 0, h);
  const Rows values = project(context, weights.v_proj, 0, h);
  for (int token = 0; token < h.count(); ++token) {
    for (int head = 0; head < dims.attention_heads; ++head) {  // rows of a head: query, then gate
      const auto query = query_gate[token].subspan(2 * static_cast<std::size_t>(head) * head_dim, head_dim);
      rms_norm(query, weights.q_norm, dims.rms_norm_eps, query);
      rotate(query, dims.rotary_dim, dims.rope_theta, position + token);
    }
    for (int head = 0; head < dims.kv_heads; ++head) {
      const auto key = keys[token].subspan(static_cast<std::size_t>(head) * head_dim, head_dim);
      rms_norm(key, weights.k_norm, dims.rms_norm_eps, key);
      rotate(key, dims.rotary_dim, dims.rope_theta, position + token);
    }
    const std::size_t slot = static_cast<std::size_t>(position + token) * kv_rows;
    std::copy(keys[token].begin(), keys[token].end(), cache.keys.begin() + static_cast<std::ptrdiff_t>(slot));
    std::copy(values[token].begin(), values[token].end(),
              cache.values.begin() + static_cast<std::ptrdiff_t>(slot));
  }

  Rows heads(h.count(), static_cast<std::size_t>(dims.attention_rows()));
  const std::int64_t tasks = static_cast<std::int64_t>(h.count()) * dims.attention_heads;
  context.pool.parallel_for(tasks, 4, [&](std::int64_t begin, std::int64_t end, int thread) {
    std::vector<double> sum(head_dim);
    for (std::int64_t task = begin; task < end; ++task) {
      const int token = static_cast<int>(task / dims.attention_heads);
      const auto head = static_cast<std::size_t>(task % dims.attention_heads);
      const std::size_t kv_offset = head / static_cast<std::size_t>(dims.queries_per_kv()) * head_dim;
      const std::span<const float> query = query_gate[token].subspan(2 * head * head_dim, head_dim);
      const std::span<const float> gate = query_gate[token].subspan((2 * head + 1) * head_dim, head_dim);

      const auto length = static_cast<std::size_t>(position + token + 1);
      const auto weight = scores.subspan(static_cast<std::size_t>(thread) * capacity, length);
      attention_weights(query, cache.keys.data() + kv_offset, kv_rows, weight);
      std::fill(sum.begin(), sum.end(), 0.0);
      for (std::size_t s = 0; s < length; ++s) {
        const float* value = cache.values.data() + s * kv_rows + kv_offset;
        for (std::size_t i = 0; i < head_dim; ++i) sum[i] += weight[s] * value[i];
      }
      for (std::size_t i = 0; i < head_dim; ++i) {
        heads[token][head * head_dim + i] = static_cast<float>(sum[i] * sigmoid(gate[i]));
      }
    }
  });

  const Rows result = project(context, weights.o_proj, 0, heads);
  for (int token = 0; token < h.count(); ++token) {
    for (std::size_t i = 0; i < residual.width(); ++i) residual[token][i] += result[token][i];
  }
}

}  // namespace lily::reference
