// Gated DeltaNet in its recurrent form.
#include "backend/reference/delta_net.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/reference/norms.hpp"
#include "backend/reference/scalar.hpp"

namespace lily::reference {
namespace {

// u[c](t) = silu(sum_m w[c][m] * qkv[c](t - kernel + 1 + m)); the window supplies the tokens before the
// first.
Rows convolve(const Rows& qkv, std::span<const float> weights, int kernel, std::span<float> window) {
  const std::size_t channels = qkv.width();
  const int history = kernel - 1;
  const auto input = [&](int token, std::size_t channel) -> double {
    if (token >= 0) return qkv[token][channel];
    return window[static_cast<std::size_t>(history + token) * channels + channel];
  };
  Rows output(qkv.count(), channels);
  for (int token = 0; token < qkv.count(); ++token) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      double sum = 0;
      for (int tap = 0; tap < kernel; ++tap) {
        const double weight =
            weights[channel * static_cast<std::size_t>(kernel) + static_cast<std::size_t>(tap)];
        sum += weight * input(token - history + tap, channel);
      }
      output[token][channel] = static_cast<float>(silu(sum));
    }
  }
  // The window keeps the last `history` inputs; with a short chunk some of the old ones move up.
  for (int slot = 0; slot < history; ++slot) {
    const int token = qkv.count() - history + slot;
    for (std::size_t channel = 0; channel < channels; ++channel) {
      window[static_cast<std::size_t>(slot) * channels + channel] = static_cast<float>(input(token, channel));
    }
  }
  return output;
}

}  // namespace

void delta_step(std::span<float> memory, std::span<const double> query, std::span<const double> key,
                std::span<const double> value, double decay, double beta, std::span<double> output) {
  const std::size_t key_dim = key.size();
  for (std::size_t i = 0; i < value.size(); ++i) {
    float* row = memory.data() + i * key_dim;
    const double read = decay * dot(row, key.data(), key_dim);
    const double error = beta * (value[i] - read);
    for (std::size_t j = 0; j < key_dim; ++j) row[j] = static_cast<float>(decay * row[j] + error * key[j]);
    output[i] = dot(row, query.data(), key_dim);
  }
}

void add_delta_net(const Context& context, const model::Dimensions& dims, const checkpoint::DeltaNet& weights,
                   const Rows& h, DeltaNetState state, Rows& residual) {
  const Rows qkv = project(context, weights.in_proj_qkv, 0, h);
  const Rows gate = project(context, weights.in_proj_z, 0, h);
  const Rows beta = project(context, weights.in_proj_b, 0, h);
  const Rows decay = project(context, weights.in_proj_a, 0, h);
  const Rows mixed = convolve(qkv, weights.convolution, dims.conv_kernel, state.window);

  const auto key_dim = static_cast<std::size_t>(dims.key_dim);
  const auto value_dim = static_cast<std::size_t>(dims.value_dim);
  const auto key_rows = static_cast<std::size_t>(dims.key_rows());
  const double query_scale = 1.0 / std::sqrt(static_cast<double>(dims.key_dim));
  Rows heads(h.count(), static_cast<std::size_t>(dims.value_rows()));

  // Heads are independent; within one the tokens follow each other.
  context.pool.parallel_for(dims.value_heads, 1, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<double> query(key_dim), key(key_dim), value(value_dim), output(value_dim);
    for (auto head = static_cast<std::size_t>(begin); head < static_cast<std::size_t>(end); ++head) {
      const std::size_t key_head = head / static_cast<std::size_t>(dims.values_per_key());
      const std::span<float> memory = state.memory.subspan(head * value_dim * key_dim, value_dim * key_dim);
      for (int token = 0; token < h.count(); ++token) {
        const std::span<const float> u = mixed[token];
        l2_normalize(u.subspan(key_head * key_dim, key_dim), query_scale, query);
        l2_normalize(u.subspan(key_rows + key_head * key_dim, key_dim), 1.0, key);
        const std::span<const float> raw = u.subspan(2 * key_rows + head * value_dim, value_dim);
        std::copy(raw.begin(), raw.end(), value.begin());
        const double rate = std::exp(static_cast<double>(weights.a_log[head]));
        const double step = softplus(static_cast<double>(decay[token][head]) + weights.dt_bias[head]);
        delta_step(memory, query, key, value, std::exp(-rate * step), sigmoid(beta[token][head]), output);
        gated_rms_norm(output, weights.norm, gate[token].subspan(head * value_dim, value_dim),
                       dims.rms_norm_eps, heads[token].subspan(head * value_dim, value_dim));
      }
    }
  });

  const Rows result = project(context, weights.out_proj, 0, heads);
  for (int token = 0; token < h.count(); ++token) {
    for (std::size_t i = 0; i < residual.width(); ++i) residual[token][i] += result[token][i];
  }
}

}  // namespace lily::reference
