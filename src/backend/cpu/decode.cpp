// Decode: one token through all layers. Every step waits for memory, so each loop streams weights once and
// activations may keep two terms: the second product is free.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/forward.hpp"
#include "backend/cpu/rope.hpp"

namespace lily::cpu {

namespace {

// Positions whose attention one thread computes at once; partial results are merged in order, so the split
// (and the rounding) does not depend on the number of threads.
constexpr int kSplit = 1024;

}  // namespace

Decoder::Decoder(const Context& context, bool exact) : context_(context), sizes_(scratch_sizes(context)) {
  const model::Dimensions& dims = context.dims;
  const auto floats = [](int count) { return FloatBuffer(static_cast<std::size_t>(count)); };
  hidden_ = floats(dims.hidden_size);
  normed_ = floats(dims.hidden_size);
  mixed_ = floats(sizes_.mixer_rows);
  inner_ = floats(sizes_.inner_columns);
  output_ = floats(sizes_.panels * dims.hidden_size);
  router_ = floats(sizes_.router_rows);
  const int active = dims.experts_per_token + 1;
  expert_ = floats(active * sizes_.expert_rows);
  expert_out_ = floats(active * dims.hidden_size);
  logits_ = floats(padded_rows(context.weights.head));
  convolved_ = floats(dims.conv_channels());
  gates_ = floats(2 * dims.value_heads);
  queries_ = floats(dims.attention_rows());
  cosines_ = floats(dims.rotary_dim / 2);
  sines_ = floats(dims.rotary_dim / 2);
  const int splits = (dims.max_positions + kSplit - 1) / kSplit;
  attention_ = floats(splits * (dims.attention_rows() + 2 * dims.attention_heads));
  input_row_ = ActivationRows(1, dims.hidden_size, exact);
  inner_row_ = ActivationRows(1, sizes_.inner_columns, exact);
  expert_rows_ = ActivationRows(active, sizes_.expert_columns, exact);
  routes_.resize(static_cast<std::size_t>(active));
  expert_outputs_.resize(routes_.size());
  expert_weights_.resize(routes_.size());
  window_rows_.resize(static_cast<std::size_t>(dims.conv_kernel));
  panel_outputs_.resize(static_cast<std::size_t>(sizes_.panels));
}

void Decoder::multiply(const PackedMatrix& matrix, const ActivationRow& row, float* out) {
  context_.pool.parallel_for(
      matrix.blocks(), block_grain(matrix), [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
        context_.kernels.matmul(matrix, static_cast<int>(begin), static_cast<int>(end), &row, 1, out, 0);
      });
}

// The blocks of several matrices as one range of work, so that threads end together: calls
// work(matrix, begin, end) for `count` matrices of `blocks` blocks, of which the last has `last_blocks`.
template <class Work>
void Decoder::for_all_blocks(int count, int blocks, int last_blocks, std::int64_t grain, const Work& work) {
  const std::int64_t total = static_cast<std::int64_t>(count - 1) * blocks + last_blocks;
  context_.pool.parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    while (begin < end) {
      const int matrix = std::min(static_cast<int>(begin / blocks), count - 1);
      const std::int64_t base = static_cast<std::int64_t>(matrix) * blocks;
      const std::int64_t stop = matrix == count - 1 ? end : std::min(end, base + blocks);
      work(matrix, static_cast<int>(begin - base), static_cast<int>(stop - base));
      begin = stop;
    }
  });
}

void Decoder::normalize_and_quantize(const std::vector<float>& factor, const ActivationRow& row) {
  const int hidden = context_.dims.hidden_size;
  context_.kernels.rms_norm(hidden_.data(), factor.data(), static_cast<float>(context_.dims.rms_norm_eps),
                            hidden, normed_.data());
  context_.kernels.quantize(normed_.data(), hidden, row);
}

void Decoder::step(CpuSequence& sequence, TokenId token, std::span<float> logits) {
  const model::Dimensions& dims = context_.dims;
  const Weights& weights = context_.weights;
  weights.embedding.decode(token, {hidden_.data(), static_cast<std::size_t>(dims.hidden_size)});
  rope_angles(sequence.position(), dims.rotary_dim, dims.rope_theta, cosines_.data(), sines_.data());

  int delta_layer = 0, attention_layer = 0;
  for (int i = 0; i < dims.layer_count(); ++i) {
    const LayerWeights& layer = weights.layers[static_cast<std::size_t>(i)];
    normalize_and_quantize(layer.input_norm, input_row_[0]);
    multiply(layer.mixer_in, input_row_[0], mixed_.data());
    if (layer.kind == model::LayerKind::delta_net) {
      delta_net(layer, sequence, delta_layer++);
    } else {
      attention(layer, sequence, attention_layer++);
    }
    add_mixer_output(layer);
    experts(layer, i);
  }

  normalize_and_quantize(weights.final_norm, input_row_[0]);
  multiply(weights.head, input_row_[0], logits_.data());
  std::memcpy(logits.data(), logits_.data(), logits.size_bytes());
  sequence.advance(1);
}

void Decoder::add_mixer_output(const LayerWeights& layer) {
  const int hidden = context_.dims.hidden_size, blocks = layer.mixer_out.front().blocks();
  const int panels = static_cast<int>(layer.mixer_out.size());
  for_all_blocks(panels, blocks, blocks, block_grain(layer.mixer_out.front()),
                 [&](int panel, int begin, int end) {
                   const ActivationRow row = from_column(inner_row_[0], panel * kPanelColumns);
                   context_.kernels.matmul(layer.mixer_out[static_cast<std::size_t>(panel)], begin, end, &row,
                                           1, output_.row(panel, hidden), 0);
                 });
  for (int panel = 0; panel < panels; ++panel) {
    panel_outputs_[static_cast<std::size_t>(panel)] = output_.row(panel, hidden);
  }
  add_to_residual(context_.kernels, panel_outputs_.data(), panels, hidden, hidden_.data());
}

// One region for the whole mixer: a key head with its value heads needs nothing of the other heads, so each
// is taken from convolution to quantized output without a barrier.
void Decoder::delta_net(const LayerWeights& layer, CpuSequence& sequence, int delta_layer) {
  const model::Dimensions& dims = context_.dims;
  const int position = sequence.position(), taps = dims.conv_kernel;
  for (int m = 0; m + 1 < taps; ++m) {
    window_rows_[static_cast<std::size_t>(m)] = sequence.window_row(delta_layer, position - taps + 1 + m);
  }
  window_rows_.back() = mixed_.data();
  context_.pool.parallel_for(dims.key_heads, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (std::int64_t h = begin; h < end; ++h) {
      delta_net_head(layer, sequence, delta_layer, static_cast<int>(h));
    }
  });
}

void Decoder::delta_net_head(const LayerWeights& layer, CpuSequence& sequence, int delta_layer,
                             int key_head) {
  const model::Dimensions& dims = context_.dims;
  const Kernels& kernels = context_.kernels;
  const auto eps = static_cast<float>(dims.rms_norm_eps);
  const int first = key_head * dims.values_per_key(), last = first + dims.values_per_key();
  float* alpha = gates_.data();
  float* beta = alpha + dims.value_heads;
  delta_net_gates(layer, mixed_.data(), first, last, alpha, beta);

  // The oldest row of the window gives its place to the new one, channel by channel.
  float* newest = sequence.window_row(delta_layer, sequence.position());
  const auto convolve = [&](int channel, int count) {
    float* out = convolved_.at(static_cast<std::size_t>(channel));
    kernels.convolve(window_rows_.data(), channel, layer.convolution.data() + channel, dims.conv_channels(),
                     dims.conv_kernel, count, out);
    std::memcpy(newest + channel, mixed_.data() + channel, static_cast<std::size_t>(count) * sizeof(float));
    return out;
  };
  float* query = convolve(key_head * dims.key_dim, dims.key_dim);
  float* key = convolve(dims.key_rows() + key_head * dims.key_dim, dims.key_dim);
  const float* values =
      convolve(2 * dims.key_rows() + first * dims.value_dim, dims.values_per_key() * dims.value_dim);
  kernels.l2_normalize(query, eps, 1 / std::sqrt(static_cast<float>(dims.key_dim)), dims.key_dim);
  kernels.l2_normalize(key, eps, 1, dims.key_dim);

  for (int h = first; h < last; ++h) {
    const auto value_at = static_cast<std::size_t>(h) * static_cast<std::size_t>(dims.value_dim);
    DeltaNetRun run;
    run.state = sequence.delta_state(delta_layer, h);
    run.queries = query;
    run.keys = key;
    run.values = values + static_cast<std::ptrdiff_t>(h - first) * dims.value_dim;
    run.alpha = alpha + h;
    run.beta = beta + h;
    run.out = inner_.at(value_at);
    run.tokens = 1;
    run.key_dim = dims.key_dim;
    run.value_dim = dims.value_dim;
    for (int block = 0; block < dims.value_dim / kLanes; ++block) kernels.delta_net(run, block);
    kernels.gated_rms_norm(run.out, layer.head_norm.data(),
                           mixed_.at(static_cast<std::size_t>(layer.z_row) + value_at), eps, dims.value_dim,
                           run.out);
  }
  quantize_inner(first * dims.value_dim, (last - first) * dims.value_dim);
}

void Decoder::quantize_inner(int column, int count) {
  context_.kernels.quantize(inner_.at(static_cast<std::size_t>(column)), count,
                            from_column(inner_row_[0], column));
}

void Decoder::attention(const LayerWeights& layer, CpuSequence& sequence, int attention_layer) {
  const model::Dimensions& dims = context_.dims;
  context_.pool.parallel_for(dims.kv_heads, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (std::int64_t h = begin; h < end; ++h) {
      prepare_attention(context_, layer, sequence, attention_layer, static_cast<int>(h), sequence.position(),
                        cosines_.data(), sines_.data(), mixed_.data(), queries_.data());
    }
  });

  const int length = sequence.position() + 1;
  const int splits = (length + kSplit - 1) / kSplit;
  const int heads = dims.attention_heads, group = dims.queries_per_kv(), dim = dims.head_dim;
  // Per split: values [heads][dim], maxima [heads], sums [heads].
  const std::size_t split_floats = static_cast<std::size_t>(dims.attention_rows() + 2 * heads);
  const auto state_of = [&](int split, int head) {
    float* base = attention_.at(static_cast<std::size_t>(split) * split_floats);
    AttentionState state;
    state.values = base + static_cast<std::ptrdiff_t>(head) * dim;
    state.maximum = base + dims.attention_rows() + head;
    state.sum = state.maximum + heads;
    return state;
  };

  // A thread's units lie behind each other in memory: all splits of a KV head.
  context_.pool.parallel_for(
      static_cast<std::int64_t>(splits) * dims.kv_heads, 1,
      [&](std::int64_t first, std::int64_t last, int /*thread*/) {
        for (std::int64_t unit = first; unit < last; ++unit) {
          const int split = static_cast<int>(unit) % splits, kv_head = static_cast<int>(unit) / splits;
          const AttentionState state = state_of(split, kv_head * group);
          std::fill_n(state.values, static_cast<std::ptrdiff_t>(group) * dim, 0.0F);
          std::fill_n(state.maximum, group, -INFINITY);
          std::fill_n(state.sum, group, 0.0F);
          const int end = std::min(length, (split + 1) * kSplit);
          for (int begin = split * kSplit; begin < end; begin += kAttentionBlock) {
            context_.kernels.attend(
                sequence.kv(attention_layer, kv_head), dim,
                queries_.at(static_cast<std::size_t>(kv_head * group) * static_cast<std::size_t>(dim)), group,
                begin, std::min(begin + kAttentionBlock, end), state);
          }
        }
      });

  context_.pool.parallel_for(heads, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (int h = static_cast<int>(begin); h < static_cast<int>(end); ++h) {
      const AttentionState total = state_of(0, h);
      for (int split = 1; split < splits; ++split) {
        const AttentionState part = state_of(split, h);
        const float maximum = std::max(*total.maximum, *part.maximum);
        const float keep = std::exp(*total.maximum - maximum), add = std::exp(*part.maximum - maximum);
        for (int d = 0; d < dim; ++d) total.values[d] = total.values[d] * keep + part.values[d] * add;
        *total.sum = *total.sum * keep + *part.sum * add;
        *total.maximum = maximum;
      }
      finish_attention(context_, mixed_.data(), h, *total.sum, total.values);
      std::copy_n(total.values, dim, inner_.at(static_cast<std::size_t>(h) * static_cast<std::size_t>(dim)));
      quantize_inner(h * dim, dim);
    }
  });
}

void Decoder::experts(const LayerWeights& layer, int layer_index) {
  const model::Dimensions& dims = context_.dims;
  const Kernels& kernels = context_.kernels;
  const int active = dims.experts_per_token + 1, hidden = dims.hidden_size;
  normalize_and_quantize(layer.post_attention_norm, input_row_[0]);
  multiply(layer.router, input_row_[0], router_.data());
  select_experts(router_.data(), dims.experts, dims.experts_per_token, layer_index, routes_.data());
  routes_.back() = {dims.experts, 1 / (1 + std::exp(-router_.data()[layer.shared_gate_row]))};

  // Multiplies the selected experts' matrices, the shared expert's last.
  const auto multiply_experts = [&](const std::vector<PackedMatrix>& matrices, const auto& row_of, float* out,
                                    int stride) {
    for_all_blocks(active, matrices.front().blocks(), matrices.back().blocks(), block_grain(matrices.front()),
                   [&](int slot, int begin, int end) {
                     const int expert = routes_[static_cast<std::size_t>(slot)].expert;
                     kernels.matmul(matrices[static_cast<std::size_t>(expert)], begin, end, row_of(slot), 1,
                                    out + static_cast<std::ptrdiff_t>(slot) * stride, 0);
                   });
  };
  multiply_experts(
      layer.gate_up, [&](int /*slot*/) { return &input_row_[0]; }, expert_.data(), sizes_.expert_rows);
  context_.pool.parallel_for(active, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (int slot = static_cast<int>(begin); slot < static_cast<int>(end); ++slot) {
      const int size = slot + 1 < active ? dims.expert_size : dims.shared_expert_size;
      float* gate = expert_.row(slot, sizes_.expert_rows);
      kernels.silu_multiply(gate, gate + size, size, gate);
      kernels.quantize(gate, size, expert_rows_[slot]);
    }
  });
  multiply_experts(
      layer.down, [&](int slot) { return &expert_rows_[slot]; }, expert_out_.data(), hidden);
  for (int slot = 0; slot < active; ++slot) {
    expert_outputs_[static_cast<std::size_t>(slot)] = expert_out_.row(slot, hidden);
    expert_weights_[static_cast<std::size_t>(slot)] = routes_[static_cast<std::size_t>(slot)].weight;
  }
  kernels.add_weighted(expert_outputs_.data(), expert_weights_.data(), active, hidden, hidden_.data());
}

}  // namespace lily::cpu
