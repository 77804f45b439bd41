// Prefill: chunks of tokens through all layers, matrix by matrix. The mixture of experts is in
// prefill_experts.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/forward.hpp"
#include "backend/cpu/rope.hpp"
#include "lily/error.hpp"

namespace lily::cpu {

namespace {

// Tokens whose attention is computed together: a block of K and V (256 positions, 264 KiB in 16 bits, half of
// it in 8) stays in the second-level cache while they pass.
constexpr int kTokenGroup = 32;
// On tiles twice as many, because making bf16 of the block takes a third as long as attending to it with 32.
constexpr int kTileTokenGroup = 64;
constexpr int kTokenGrain = 8;  // tokens that a thread takes at once in elementwise loops

}  // namespace

Prefiller::Prefiller(const Context& context, RowFormat format)
    : context_(context),
      sizes_(scratch_sizes(context)),
      delta_net_heads_(format == RowFormat::wide ? context.kernels.delta_net_heads_fast
                                                 : context.kernels.delta_net_heads),
      attention_in_codes_(format != RowFormat::two_terms && context.kernels.attend_codes != nullptr),
      on_tiles_(format != RowFormat::two_terms && delta_net_heads_ != nullptr),
      in_halves_(format == RowFormat::wide) {
  const model::Dimensions& dims = context.dims;
  const int chunk = context.kernels.expert_chunk, expert_tokens = context.kernels.expert_tokens;
  hidden_ = FloatBuffer(chunk, dims.hidden_size);
  mixed_ = FloatBuffer(kChunk, sizes_.mixer_rows);
  convolved_ = FloatBuffer(kChunk, stride_of(dims.conv_channels()));
  inner_ = FloatBuffer(kChunk, stride_of(sizes_.inner_columns));
  router_ = FloatBuffer(chunk, sizes_.router_rows);
  gates_ = FloatBuffer(kChunk, 2 * dims.value_heads);
  queries_ = FloatBuffer(kChunk, dims.attention_rows());
  attention_sums_ = FloatBuffer(kChunk, 2 * dims.attention_heads);
  angles_ = FloatBuffer(chunk, dims.rotary_dim);
  logits_ = FloatBuffer(1, padded_rows(context.weights.head));
  const int active = dims.experts_per_token + 1;
  const int panel_rows = sizes_.panels * dims.hidden_size;
  if (in_halves_) {
    output_halves_ = HalfBuffer(kChunk, half_stride_of(panel_rows));
    slot_halves_ = HalfBuffer(chunk * active, half_stride_of(dims.hidden_size));
  } else {
    output_ = FloatBuffer(kChunk, stride_of(panel_rows));
    slots_ = FloatBuffer(chunk * active, stride_of(dims.hidden_size));
  }
  input_rows_ = ActivationRows(chunk, dims.hidden_size, format);
  // The router decides which experts run: its input keeps two terms, for 0.7 % of the multiplications. In
  // wide rows it is rounded to bf16, less than what it is made of.
  router_rows_ = ActivationRows(chunk, dims.hidden_size,
                                format == RowFormat::wide ? RowFormat::bf16 : RowFormat::two_terms);
  inner_rows_ = ActivationRows(kChunk, sizes_.inner_columns, format);
  for (int panel = 0; panel < sizes_.panels; ++panel) {
    for (int t = 0; t < kChunk; ++t)
      panel_rows_.push_back(from_column(inner_rows_[t], panel * kPanelColumns));
  }
  head_row_ = ActivationRows(1, dims.hidden_size, RowFormat::two_terms);
  routes_.resize(static_cast<std::size_t>(chunk * dims.experts_per_token));
  slot_of_.resize(static_cast<std::size_t>(chunk * active));
  token_of_slot_.resize(slot_of_.size());
  threads_.resize(static_cast<std::size_t>(context.pool.size()));
  for (ThreadScratch& scratch : threads_) {
    scratch.normed = FloatBuffer(1, dims.hidden_size);
    // A huge page: 16 tokens' rows are written at a time, each in a small page of its own.
    const int stride = stride_of(sizes_.expert_rows), half_stride = half_stride_of(sizes_.expert_rows);
    if (in_halves_) {
      scratch.gate_up = FloatBuffer(1, stride);
      scratch.gate_up_halves = HalfBuffer(std::max(expert_tokens, (1 << 20) / half_stride + 1), half_stride);
    } else {
      scratch.gate_up = FloatBuffer(std::max(expert_tokens, (1 << 19) / stride + 1), stride);
    }
    scratch.rows = ActivationRows(expert_tokens, sizes_.expert_columns, format);
    scratch.gathered.resize(static_cast<std::size_t>(expert_tokens));
    scratch.window.resize(static_cast<std::size_t>(dims.conv_kernel));
    if (attention_in_codes_) scratch.kv_codes = KvCodeBlock(dims.head_dim);
  }
}

std::uint64_t Prefiller::bytes() const {
  std::uint64_t bytes = 0;
  for (const FloatBuffer* buffer : {&hidden_, &mixed_, &convolved_, &inner_, &output_, &router_, &slots_,
                                    &gates_, &queries_, &attention_sums_, &angles_, &logits_}) {
    bytes += buffer->bytes();
  }
  bytes += output_halves_.bytes() + slot_halves_.bytes();
  for (const ActivationRows* rows : {&input_rows_, &router_rows_, &inner_rows_, &head_row_}) {
    bytes += rows->bytes();
  }
  for (const ThreadScratch& scratch : threads_) {
    bytes += scratch.gate_up.bytes() + scratch.gate_up_halves.bytes() + scratch.rows.bytes();
  }
  return bytes;
}

void Prefiller::multiply_blocks(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows,
                                int tokens, float* out, int stride, bool past_cache) const {
  const Kernels& kernels = context_.kernels;
  const bool past = past_cache && kernels.matmul_past_cache != nullptr;
  (past ? kernels.matmul_past_cache : kernels.matmul)(matrix, begin, end, rows, tokens, out, stride);
}
void Prefiller::multiply_blocks(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows,
                                int tokens, std::uint16_t* out, int stride, bool past_cache) const {
  context_.kernels.matmul_to_halves(matrix, begin, end, rows, tokens, out, stride, past_cache);
}

template <class Result>
void Prefiller::multiply(const PackedMatrix& matrix, const ActivationRow* rows, int tokens, Result* out,
                         int stride) {
  const Kernels& kernels = context_.kernels;
  const bool past_cache = are_past_cache<Result>(tokens, stride);
  const int blocks = matrix.blocks(), most = kernels.tokens_at_once;
  const int panels = (tokens + most - 1) / most;  // of tokens
  // Four pieces a thread or more, so that the threads finish together.
  const int fair = std::max(4, blocks * panels / (4 * context_.pool.size()));
  const int grain = std::min(kernels.blocks_at_once, fair), pieces = (blocks + grain - 1) / grain;
  // Of even size, because blocks are multiplied in twos.
  const int size = ((blocks + pieces - 1) / pieces + 1) / 2 * 2;
  context_.pool.parallel_for(
      static_cast<std::int64_t>(panels) * pieces, 1,
      [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
        for (std::int64_t i = begin; i < end; ++i) {
          const int block = static_cast<int>(i) % pieces * size, first = static_cast<int>(i) / pieces * most;
          if (block >= blocks) continue;
          multiply_blocks(matrix, block, std::min(block + size, blocks), rows + first,
                          std::min(most, tokens - first), out + static_cast<std::ptrdiff_t>(first) * stride,
                          stride, past_cache);
        }
      });
}

template void Prefiller::multiply(const PackedMatrix&, const ActivationRow*, int, float*, int);

void Prefiller::normalize_and_quantize(const std::vector<float>& factor, int first, int tokens,
                                       bool for_router) {
  const int hidden = context_.dims.hidden_size;
  context_.pool.parallel_for(tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int thread) {
    float* normed = threads_[static_cast<std::size_t>(thread)].normed.data();
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      context_.kernels.rms_norm(hidden_.row(first + t, hidden), factor.data(),
                                static_cast<float>(context_.dims.rms_norm_eps), hidden, normed);
      context_.kernels.quantize(normed, hidden, input_rows_[t]);
      if (for_router) context_.kernels.quantize(normed, hidden, router_rows_[t]);
    }
  });
}

void Prefiller::run(CpuSequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
                    const backend::PrefillControl& control) {
  const int total = static_cast<int>(tokens.size()), layers = context_.dims.layer_count();
  const int most = context_.kernels.expert_chunk;
  for (int done = 0; done < total; done += most) {
    const int count = std::min(most, total - done);
    chunk(sequence, tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)), control,
          [&](int layer) {
            if (!control.progress) return;
            const auto share = static_cast<std::int64_t>(count) * (layer + 1) / layers;
            control.progress(done + static_cast<int>(share), total);
          });
    const int base = sequence.position();
    if (control.every_position) {
      for (int t = 0; t < count; ++t) {
        head(t, logits);
        control.every_position(base + t, logits);
      }
    } else if (done + count == total) {
      head(count - 1, logits);
    }
    sequence.advance(count);
  }
}

void Prefiller::chunk(CpuSequence& sequence, std::span<const TokenId> tokens,
                      const backend::PrefillControl& control,
                      const std::function<void(int layer)>& after_layer) {
  const model::Dimensions& dims = context_.dims;
  const int count = static_cast<int>(tokens.size()), hidden = dims.hidden_size;
  context_.pool.parallel_for(count, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      context_.weights.embedding.decode(tokens[static_cast<std::size_t>(t)],
                                        {hidden_.row(t, hidden), static_cast<std::size_t>(hidden)});
      float* cosines = angles_.row(t, dims.rotary_dim);
      rope_angles(sequence.position() + t, dims.rotary_dim, dims.rope_theta, cosines,
                  cosines + dims.rotary_dim / 2);
    }
  });

  int delta_layer = 0, attention_layer = 0;
  for (int i = 0; i < dims.layer_count(); ++i) {
    if (control.stop.stop_requested()) {
      throw Error(ErrorKind::cancelled,
                  fmt::format("prefill stopped at token {}, layer {}", sequence.position(), i));
    }
    const LayerWeights& layer = context_.weights.layers[static_cast<std::size_t>(i)];
    int& kind_layer = layer.kind == model::LayerKind::delta_net ? delta_layer : attention_layer;
    for (int first = 0; first < count; first += kChunk) {
      const int tokens_here = std::min(kChunk, count - first);
      normalize_and_quantize(layer.input_norm, first, tokens_here, false);
      multiply(layer.mixer_in, input_rows_.data(), tokens_here, mixed_.data(), sizes_.mixer_rows);
      if (layer.kind == model::LayerKind::delta_net) {
        delta_net(layer, sequence, kind_layer, first, tokens_here);
      } else {
        attention(layer, sequence, kind_layer, first, tokens_here);
      }
      const int columns = static_cast<int>(layer.mixer_out.size()) * hidden;
      in_halves_ ? add_mixer_output(layer, first, tokens_here, output_halves_, half_stride_of(columns))
                 : add_mixer_output(layer, first, tokens_here, output_, stride_of(columns));
    }
    ++kind_layer;
    experts(layer, i, count);
    after_layer(i);
  }
}

template <class Result>
void Prefiller::add_mixer_output(const LayerWeights& layer, int first, int tokens,
                                 const Buffer<Result>& output, int stride) {
  const int hidden = context_.dims.hidden_size, panels = static_cast<int>(layer.mixer_out.size());
  for (int panel = 0; panel < panels; ++panel) {
    multiply(layer.mixer_out[static_cast<std::size_t>(panel)],
             panel_rows_.data() + static_cast<std::ptrdiff_t>(panel) * kChunk, tokens,
             output.at(static_cast<std::size_t>(panel) * static_cast<std::size_t>(hidden)), stride);
  }
  context_.pool.parallel_for(tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    std::vector<const Result*> outputs(static_cast<std::size_t>(panels));
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      for (int panel = 0; panel < panels; ++panel) {
        outputs[static_cast<std::size_t>(panel)] =
            output.row(t, stride) + static_cast<std::ptrdiff_t>(panel) * hidden;
      }
      add_to_residual(context_.kernels, outputs.data(), panels, hidden, hidden_.row(first + t, hidden));
    }
  });
}

// While the token's row is still near.
void Prefiller::round_inner(const LayerWeights& layer, int token) {
  context_.kernels.quantize(inner_.row(token, stride_of(sizes_.inner_columns)), inner_columns(layer),
                            inner_rows_[token]);
}

void Prefiller::delta_net(const LayerWeights& layer, CpuSequence& sequence, int delta_layer, int first,
                          int tokens) {
  const model::Dimensions& dims = context_.dims;
  const Kernels& kernels = context_.kernels;
  const int taps = dims.conv_kernel, channels = dims.conv_channels(), base = sequence.position() + first;
  const auto eps = static_cast<float>(dims.rms_norm_eps);
  const float scale = 1 / std::sqrt(static_cast<float>(dims.key_dim));
  const int gate_columns = 2 * dims.value_heads;

  context_.pool.parallel_for(tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int thread) {
    std::vector<const float*>& window = threads_[static_cast<std::size_t>(thread)].window;
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      for (int m = 0; m < taps; ++m) {
        const int source = t - taps + 1 + m;
        window[static_cast<std::size_t>(m)] = source >= 0 ? mixed_.row(source, sizes_.mixer_rows)
                                                          : sequence.window_row(delta_layer, base + source);
      }
      float* out = convolved_.row(t, stride_of(channels));
      kernels.convolve(window.data(), 0, layer.convolution.data(), channels, taps, channels, out);
      for (int h = 0; h < dims.key_heads; ++h) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(h) * dims.key_dim;
        kernels.l2_normalize(out + at, eps, scale, dims.key_dim);
        kernels.l2_normalize(out + dims.key_rows() + at, eps, 1, dims.key_dim);
      }
      float* alpha = gates_.row(t, gate_columns);
      delta_net_gates(layer, mixed_.row(t, sizes_.mixer_rows), 0, dims.value_heads, alpha,
                      alpha + dims.value_heads);
    }
  });
  for (int t = std::max(0, tokens - taps + 1); t < tokens; ++t) {
    std::memcpy(sequence.window_row(delta_layer, base + t), mixed_.row(t, sizes_.mixer_rows),
                static_cast<std::size_t>(channels) * sizeof(float));
  }

  const auto run_of = [&](int h) {
    const std::ptrdiff_t key_at = static_cast<std::ptrdiff_t>(h / dims.values_per_key()) * dims.key_dim;
    const std::ptrdiff_t value_at = static_cast<std::ptrdiff_t>(h) * dims.value_dim;
    DeltaNetRun run;
    run.state = sequence.delta_state(delta_layer, h);
    run.queries = convolved_.data() + key_at;
    run.keys = run.queries + dims.key_rows();
    run.values = convolved_.data() + 2 * dims.key_rows() + value_at;
    run.alpha = gates_.data() + h;
    run.beta = run.alpha + dims.value_heads;
    run.out = inner_.data() + value_at;
    run.query_stride = run.key_stride = run.value_stride = stride_of(channels);
    run.gate_stride = gate_columns;
    run.out_stride = stride_of(sizes_.inner_columns);
    run.tokens = tokens;
    run.key_dim = dims.key_dim;
    run.value_dim = dims.value_dim;
    return run;
  };
  if (on_tiles_) {
    // Heads that share a key also share what is computed of it, as long as all threads have some.
    const int together = dims.key_heads >= context_.pool.size() ? dims.values_per_key() : 1;
    context_.pool.parallel_for(dims.value_heads / together, 1,
                               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                                 std::vector<DeltaNetRun> runs;
                                 for (std::int64_t unit = begin; unit < end; ++unit) {
                                   runs.clear();
                                   for (int i = 0; i < together; ++i)
                                     runs.push_back(run_of(static_cast<int>(unit) * together + i));
                                   delta_net_heads_(runs.data(), together);
                                 }
                               });
  } else {
    // Value rows are independent, so each thread takes blocks of 16 of them through all tokens.
    const int blocks = dims.value_dim / kLanes;
    context_.pool.parallel_for(static_cast<std::int64_t>(dims.value_heads) * blocks, 1,
                               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                                 for (std::int64_t unit = begin; unit < end; ++unit) {
                                   kernels.delta_net(run_of(static_cast<int>(unit) / blocks),
                                                     static_cast<int>(unit) % blocks);
                                 }
                               });
  }

  context_.pool.parallel_for(tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      for (int h = 0; h < dims.value_heads; ++h) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(h) * dims.value_dim;
        float* out = inner_.row(t, stride_of(sizes_.inner_columns)) + at;
        kernels.gated_rms_norm(out, layer.head_norm.data(),
                               mixed_.row(t, sizes_.mixer_rows) + layer.z_row + at, eps, dims.value_dim, out);
      }
      round_inner(layer, t);
    }
  });
}

void Prefiller::attention(const LayerWeights& layer, CpuSequence& sequence, int attention_layer, int first,
                          int tokens) {
  const model::Dimensions& dims = context_.dims;
  const int rows = dims.attention_rows(), base = sequence.position() + first;
  context_.pool.parallel_for(tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      const float* cosines = angles_.row(first + t, dims.rotary_dim);
      for (int head = 0; head < dims.kv_heads; ++head) {
        prepare_attention(context_, layer, sequence, attention_layer, head, base + t, cosines,
                          cosines + dims.rotary_dim / 2, mixed_.row(t, sizes_.mixer_rows),
                          queries_.row(t, rows));
      }
    }
  });
  const int together = on_tiles_ ? kTileTokenGroup : kTokenGroup;
  const int groups = (tokens + together - 1) / together;
  context_.pool.parallel_for(static_cast<std::int64_t>(groups) * dims.kv_heads, 1,
                             [&](std::int64_t begin, std::int64_t end, int thread) {
                               for (std::int64_t unit = begin; unit < end; ++unit) {
                                 const int group = static_cast<int>(unit) / dims.kv_heads * together;
                                 attend_group(sequence, attention_layer, base,
                                              static_cast<int>(unit) % dims.kv_heads, group,
                                              std::min(together, tokens - group), thread);
                               }
                             });
  context_.pool.parallel_for(tokens, kTokenGrain, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      const float* sums = attention_sums_.row(t, 2 * dims.attention_heads) + dims.attention_heads;
      for (int h = 0; h < dims.attention_heads; ++h) {
        finish_attention(
            context_, mixed_.row(t, sizes_.mixer_rows), h, sums[h],
            inner_.row(t, stride_of(sizes_.inner_columns)) + static_cast<std::ptrdiff_t>(h) * dims.head_dim);
      }
      round_inner(layer, t);
    }
  });
}

void Prefiller::attend_group(const CpuSequence& sequence, int attention_layer, int base, int kv_head,
                             int first, int count, int thread) {
  const model::Dimensions& dims = context_.dims;
  const int heads = dims.queries_per_kv(), dim = dims.head_dim;
  const std::ptrdiff_t head_at = static_cast<std::ptrdiff_t>(kv_head) * heads;
  const KvView kv = sequence.kv(attention_layer, kv_head);
  if (on_tiles_) {
    AttentionGroup group;
    group.queries = queries_.row(first, dims.attention_rows()) + head_at * dim;
    group.values = inner_.row(first, stride_of(sizes_.inner_columns)) + head_at * dim;
    group.sums = attention_sums_.row(first, 2 * dims.attention_heads) + dims.attention_heads + head_at;
    group.query_stride = dims.attention_rows();
    group.value_stride = stride_of(sizes_.inner_columns);
    group.sum_stride = static_cast<std::ptrdiff_t>(2) * dims.attention_heads;
    group.tokens = count;
    group.heads = heads;
    group.position = base + first;
    context_.kernels.attend_group(kv, dim, group);
    return;
  }
  const auto state_of = [&](int t) {
    AttentionState state;
    state.values = inner_.row(t, stride_of(sizes_.inner_columns)) + head_at * dim;
    state.maximum = attention_sums_.row(t, 2 * dims.attention_heads) + head_at;
    state.sum = state.maximum + dims.attention_heads;
    return state;
  };
  for (int t = first; t < first + count; ++t) {
    const AttentionState state = state_of(t);
    std::fill_n(state.values, static_cast<std::ptrdiff_t>(heads) * dim, 0.0F);
    std::fill_n(state.maximum, heads, -INFINITY);
    std::fill_n(state.sum, heads, 0.0F);
  }
  const int last = base + first + count;  // one beyond the last position that any of them sees
  for (int begin = 0; begin < last; begin += kAttentionBlock) {
    const int block_end = begin + kAttentionBlock;
    // Codes are made of whole blocks only, and used by tokens behind them: so the rounding of a token depends
    // on nothing that comes after it, nor on how a prompt is cut into chunks.
    const bool codes_wanted = attention_in_codes_ && block_end <= last - 1;
    KvCodes codes;
    if (codes_wanted) {
      codes = context_.kernels.encode_block(kv, dim, begin,
                                            threads_[static_cast<std::size_t>(thread)].kv_codes.codes());
    }
    for (int t = first; t < first + count; ++t) {
      const int end = std::min(block_end, base + t + 1);
      if (end <= begin) continue;
      const float* queries = queries_.row(t, dims.attention_rows()) + head_at * dim;
      if (codes_wanted && base + t >= block_end) {
        context_.kernels.attend_codes(codes, dim, queries, heads, state_of(t));
      } else {
        context_.kernels.attend(kv, dim, queries, heads, begin, end, state_of(t));
      }
    }
  }
}

void Prefiller::head(int token, std::span<float> logits) {
  const int hidden = context_.dims.hidden_size;
  float* normed = threads_[0].normed.data();
  context_.kernels.rms_norm(hidden_.row(token, hidden), context_.weights.final_norm.data(),
                            static_cast<float>(context_.dims.rms_norm_eps), hidden, normed);
  context_.kernels.quantize(normed, hidden, head_row_[0]);
  const PackedMatrix& matrix = context_.weights.head;
  context_.pool.parallel_for(matrix.blocks(), block_grain(matrix),
                             [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                               context_.kernels.matmul(matrix, static_cast<int>(begin), static_cast<int>(end),
                                                       head_row_.data(), 1, logits_.data(), 0);
                             });
  std::memcpy(logits.data(), logits_.data(), logits.size_bytes());
}

}  // namespace lily::cpu
