// Records the pass of several tokens.
#include <algorithm>

#include "backend/gpu/forward.hpp"
#include "backend/gpu/select.hpp"

namespace lily::gpu {

void PrefillRecorder::layer(Plan& plan, int index) const {
  const LayerWeights& weights = layer_weights(index);
  norm_rows(plan, weights.input_norm);
  multiply(plan, weights.mixer_in, prefill_.halves, prefill_.scales, projection(weights.mixer_in));
  if (weights.kind == model::LayerKind::delta_net) {
    delta_net(plan, weights, index_in_kind(index));
  } else {
    attention(plan, weights, index_in_kind(index));
  }
  multiply_add(plan, weights.mixer_out);
  experts(plan, weights);
}

void PrefillRecorder::norm_rows(Plan& plan, const float* factor) const {
  const std::size_t hidden = size(dims_.hidden_size);
  plan.add(NormRows{pass_.x.data(), factor, prefill_.halves.data(), prefill_.scales.data(),
                    number(dims_.hidden_size), eps()},
           {1, rows_}, {x()}, {prefill_.halves.first(rows_ * hidden), prefill_.scales.first(rows_)});
}

void PrefillRecorder::half_rows(Plan& plan, const Region& from, const Buffer<half>& y,
                                const Buffer<float>& scale, uint rows, uint inputs) const {
  constexpr uint kRowsPerGroup = HalfRows::threads / 32;
  plan.add(HalfRows{address<float>(from), y.data(), scale.data(), rows, inputs},
           {divide_up(rows, kRowsPerGroup)}, {from},
           {y.first(std::size_t{rows} * inputs), scale.first(rows)});
}

void PrefillRecorder::multiply(Plan& plan, const DeviceMatrix& matrix, const Buffer<half>& halves,
                               const Buffer<float>& scale, const Region& y) const {
  const Region from = halves.first(std::size_t{rows_} * matrix.inputs), scales = scale.first(rows_);
  if (product_for(rows_) == Product::small) {
    plan.add(SmallProject{matrix.blocks, halves.data(), scale.data(), address<float>(y), rows_, matrix.inputs,
                          matrix.planes, matrix.tiles, matrix.padded_rows(), 0, matrix.guard},
             {divide_up(matrix.tiles, 2)}, {from, scales}, {y});
  } else {
    plan.add(TileProject{matrix.blocks, halves.data(), scale.data(), address<float>(y), rows_, matrix.inputs,
                         matrix.planes, matrix.tiles, matrix.padded_rows(), matrix.guard},
             {divide_up(matrix.tiles, Multiply::tiles), divide_up(rows_, Multiply::tokens)}, {from, scales},
             {y});
  }
}

void PrefillRecorder::multiply_add(Plan& plan, const DeviceMatrix& matrix) const {
  const Region from = prefill_.halves.first(std::size_t{rows_} * matrix.inputs),
               scales = prefill_.scales.first(rows_);
  if (product_for(rows_) == Product::small) {
    plan.add(
        SmallProject{matrix.blocks, prefill_.halves.data(), prefill_.scales.data(), pass_.x.data(), rows_,
                     matrix.inputs, matrix.planes, matrix.tiles, matrix.padded_rows(), 1, matrix.guard},
        {divide_up(matrix.tiles, 2)}, {from, scales, x()}, {x()});
  } else {
    plan.add(TileAddProject{matrix.blocks, prefill_.halves.data(), prefill_.scales.data(), pass_.x.data(),
                            rows_, matrix.inputs, matrix.planes, matrix.tiles, matrix.guard},
             {divide_up(matrix.tiles, Multiply::tiles), divide_up(rows_, Multiply::tokens)},
             {from, scales, x()}, {x()});
  }
}

void PrefillRecorder::delta_net(Plan& plan, const LayerWeights& layer, int delta_layer) const {
  const Region states = sequence_.states(delta_layer), window = sequence_.window(delta_layer),
               rows = projection(layer.mixer_in), y = inner(dims_.value_rows());
  const std::size_t key_rows = rows_ * size(dims_.key_rows()), value_rows = rows_ * size(dims_.value_rows()),
                    value_heads = rows_ * size(dims_.value_heads);
  const uint channels = number(dims_.conv_channels()), stride = layer.mixer_in.padded_rows();
  DeltaInputs inputs{};
  inputs.projection = pass_.projection.data();
  inputs.convolution = layer.convolution;
  inputs.rate = layer.rate;
  inputs.dt_bias = layer.dt_bias;
  inputs.position = inputs_.position();
  inputs.window = address<float>(window);
  inputs.q = prefill_.q.data();
  inputs.k = prefill_.k.data();
  inputs.v = prefill_.v.data();
  inputs.beta = prefill_.beta.data();
  inputs.log_decay = prefill_.log_decay.data();
  inputs.tokens = rows_;
  inputs.key_heads = number(dims_.key_heads);
  inputs.value_heads = number(dims_.value_heads);
  inputs.stride = stride;
  inputs.b_row = layer.b_row;
  inputs.a_row = layer.a_row;
  plan.add(inputs,
           {2 * inputs.key_heads + inputs.value_heads, divide_up(rows_, DeltaInputs::tokens_per_group)},
           {rows, window, inputs_.region()},
           {prefill_.q.first(key_rows), prefill_.k.first(key_rows), prefill_.v.first(value_rows),
            prefill_.beta.first(value_heads), prefill_.log_decay.first(value_heads)});
  plan.add(DeltaWindow{inputs.projection, inputs.position, address<float>(window), rows_, channels, stride},
           {divide_up(channels, DeltaWindow::threads)}, {rows, inputs_.region()}, {window});
  delta_rule(plan, states);

  plan.add(GatedNormRows{pass_.inner.data(), pass_.projection.at(layer.z_row), layer.head_norm,
                         prefill_.halves.data(), prefill_.scales.data(), number(dims_.value_rows()), stride,
                         eps()},
           {1, rows_}, {y, rows}, {prefill_.halves.first(value_rows), prefill_.scales.first(rows_)});
}

void PrefillRecorder::delta_rule(Plan& plan, const Region& states) const {
  const std::size_t key_rows = rows_ * size(dims_.key_rows()), value_rows = rows_ * size(dims_.value_rows()),
                    gates = rows_ * size(dims_.value_heads);
  const uint key_heads = number(dims_.key_heads), value_heads = number(dims_.value_heads);
  const Region q = prefill_.q.first(key_rows), k = prefill_.k.first(key_rows),
               v = prefill_.v.first(value_rows), beta = prefill_.beta.first(gates),
               log_decay = prefill_.log_decay.first(gates), y = inner(dims_.value_rows()),
               counters = inputs_.region();
  const PrefillBuffers& b = prefill_;
  if (delta_rule_for(rows_) == DeltaRule::scan) {
    plan.add(DeltaScan{b.q.data(), b.k.data(), b.v.data(), b.beta.data(), b.log_decay.data(), inputs_.step(),
                       address<float>(states), pass_.inner.data(), rows_, key_heads, value_heads, kStateRing},
             {DeltaScan::parts, value_heads}, {q, k, v, beta, log_decay, states, counters}, {y, states});
    return;
  }
  const uint chunks = divide_up(rows_, DeltaChunks::chunk);
  const std::size_t chunk_rows = std::size_t{chunks} * value_heads * DeltaChunks::chunk;
  const Region decay = b.decay.first(chunk_rows), u = b.u.first(chunk_rows * DeltaChunks::dim),
               w = b.w.first(chunk_rows * DeltaChunks::dim), p = b.p.first(chunk_rows * DeltaChunks::chunk);
  plan.add(DeltaChunks{b.q.data(), b.k.data(), b.v.data(), b.beta.data(), b.log_decay.data(), b.decay.data(),
                       b.u.data(), b.w.data(), b.p.data(), rows_, key_heads, value_heads},
           {chunks, value_heads}, {q, k, v, beta, log_decay}, {decay, u, w, p});
  plan.add(DeltaChunkScan{b.q.data(), b.k.data(), b.decay.data(), b.u.data(), b.w.data(), b.p.data(),
                          inputs_.step(), address<float>(states), pass_.inner.data(), rows_, key_heads,
                          value_heads, kStateRing},
           {DeltaChunkScan::parts, value_heads}, {q, k, decay, u, w, p, states, counters}, {y, states});
}

void PrefillRecorder::attention(Plan& plan, const LayerWeights& layer, int attention_layer) const {
  const KvRegions kv = sequence_.kv(attention_layer);
  attention_prepare(plan, layer, kv);
  if (attention_for(rows_) == Attention::splits) {
    split_attention(plan, layer, kv);
  } else {
    tile_attention(plan, layer, kv);
  }
  half_rows(plan, inner(dims_.attention_rows()), prefill_.halves, prefill_.scales, rows_,
            number(dims_.attention_rows()));
}

KvRegions PrefillRecorder::cache_of_halves(Plan& plan, const KvRegions& kv) const {
  const uint kv_heads = number(dims_.kv_heads), groups = cache_groups(kv_heads, model_.multiprocessors);
  const auto convert = [&](const Region& codes, const Region& scales, const Buffer<half>& halves) {
    const Region to = halves.first(codes.bytes);
    plan.add(CacheHalves{address<uchar>(codes), address<float>(scales), inputs_.position(), halves.data(),
                         rows_, number(sequence_.capacity()), groups},
             {groups, kv_heads}, {codes, scales, inputs_.region()}, {to});
    return to;
  };
  return {convert(kv.keys, kv.key_scales, prefill_.keys),
          convert(kv.values, kv.value_scales, prefill_.values),
          {},
          {}};
}

void PrefillRecorder::tile_attention(Plan& plan, const LayerWeights& layer, const KvRegions& cache) const {
  const KvRegions kv = sequence_.shape().kv == KvFormat::int8 ? cache_of_halves(plan, cache) : cache;
  const Region y = inner(dims_.attention_rows()), rows = projection(layer.mixer_in);
  AttentionPrefill a{};
  a.queries = pass_.queries.data();
  a.keys = address<half>(kv.keys);
  a.values = address<half>(kv.values);
  a.projection = pass_.projection.data();
  a.position = inputs_.position();
  a.y = pass_.inner.data();
  a.tokens = rows_;
  a.heads = number(dims_.attention_heads);
  a.kv_heads = number(dims_.kv_heads);
  a.stride = layer.mixer_in.padded_rows();
  a.capacity = number(sequence_.capacity());
  plan.add(a, {a.kv_heads, divide_up(rows_ * number(dims_.queries_per_kv()), AttentionPrefill::rows)},
           {queries(), rows, kv.keys, kv.values, inputs_.region()}, {y});
}

void PrefillRecorder::experts(Plan& plan, const LayerWeights& layer) const {
  if (experts_for(rows_, std::max(layer.gate.planes, layer.down.planes)) == Experts::by_token) {
    experts_by_token(plan, layer, nullptr);
    return;
  }
  norm_rows(plan, layer.post_attention_norm);
  multiply(plan, layer.router, prefill_.halves, prefill_.scales, router(layer.router));
  sorted_experts(plan, layer);
  shared_expert(plan, layer);

  const std::size_t assignments = rows_ * size(dims_.experts_per_token), hidden = size(dims_.hidden_size);
  const PrefillBuffers& b = prefill_;
  plan.add(ExpertCombine{b.expert_y.data(), b.expert_y_scales.data(), b.weight.data(), pass_.router.data(),
                         b.shared_y.data(), pass_.x.data(), number(dims_.hidden_size), layer.gate_row,
                         number(dims_.experts_per_token), layer.router.padded_rows()},
           {1, rows_},
           {b.expert_y.first(assignments * hidden), b.expert_y_scales.first(assignments),
            b.weight.first(assignments), router(layer.router), b.shared_y.first(rows_ * hidden), x()},
           {x()});
}

// Routing stays on the device: choices, counts, offsets, order, tiles, then two products per expert.
void PrefillRecorder::sorted_experts(Plan& plan, const LayerWeights& layer) const {
  const PrefillBuffers& b = prefill_;
  const uint picks = number(dims_.experts_per_token), n = rows_ * picks, tiles = expert_tiles(n),
             expert_size = number(dims_.expert_size), hidden = number(dims_.hidden_size);
  const Region expert = b.expert.first(n), weight = b.weight.first(n),
               count = b.count.first(CountExperts::max_experts),
               offset = b.offset.first(CountExperts::max_experts + 1), order = b.order.first(n),
               tile_expert = b.tile_expert.first(tiles), tile_first = b.tile_first.first(tiles),
               activations = pass_.activations.first(std::size_t{n} * expert_size),
               halves = b.expert_halves.first(std::size_t{n} * expert_size),
               scales = b.expert_scales.first(n);
  plan.add(TopExperts{pass_.router.data(), b.expert.data(), b.weight.data(), rows_, number(dims_.experts),
                      picks, layer.router.padded_rows()},
           {divide_up(rows_, TopExperts::tokens_per_group)}, {router(layer.router)}, {expert, weight});
  plan.add(CountExperts{b.expert.data(), reinterpret_cast<atomic_uint*>(b.count.data()), n},
           {divide_up(n, CountExperts::threads)}, {expert, count}, {count});
  plan.add(ExpertOffsets{b.count.data(), b.offset.data()}, {1}, {count}, {offset, count});
  plan.add(SortByExpert{b.expert.data(), b.offset.data(), b.order.data(), n},
           {SortByExpert::max_experts / SortByExpert::experts_per_group}, {expert, offset}, {order});
  plan.add(ExpertTiles{b.offset.data(), b.tile_expert.data(), b.tile_first.data(), tiles}, {1}, {offset},
           {tile_expert, tile_first});

  const Region from = b.halves.first(std::size_t{rows_} * hidden), from_scales = b.scales.first(rows_);
  ExpertTileGateUp gate_up{};
  gate_up.gate = layer.gate.blocks;
  gate_up.up = layer.up.blocks;
  gate_up.x = b.halves.data();
  gate_up.scale = b.scales.data();
  gate_up.order = b.order.data();
  gate_up.offset = b.offset.data();
  gate_up.tile_expert = b.tile_expert.data();
  gate_up.tile_first = b.tile_first.data();
  gate_up.activations = pass_.activations.data();
  gate_up.inputs = hidden;
  gate_up.tiles = expert_size / WeightBlock::rows;
  gate_up.picks = picks;
  gate_up.gate_guard = layer.gate.guard;
  gate_up.up_guard = layer.up.guard;
  plan.add(gate_up, {divide_up(gate_up.tiles, Multiply::tiles / 2), tiles},
           {from, from_scales, order, offset, tile_expert, tile_first}, {activations});
  half_rows(plan, activations, b.expert_halves, b.expert_scales, n, expert_size);

  ExpertTileDown down{};
  down.down = layer.down.blocks;
  down.x = b.expert_halves.data();
  down.scale = b.expert_scales.data();
  down.order = b.order.data();
  down.offset = b.offset.data();
  down.tile_expert = b.tile_expert.data();
  down.tile_first = b.tile_first.data();
  down.y = b.expert_y.data();
  down.y_scale = b.expert_y_scales.data();
  down.inputs = expert_size;
  down.tiles = hidden / WeightBlock::rows;
  down.guard = layer.down.guard;
  plan.add(down, {divide_up(down.tiles, Multiply::tiles), tiles},
           {halves, scales, order, offset, tile_expert, tile_first},
           {b.expert_y.first(std::size_t{n} * hidden), b.expert_y_scales.first(n)});
}

void PrefillRecorder::shared_expert(Plan& plan, const LayerWeights& layer) const {
  const PrefillBuffers& b = prefill_;
  const uint shared_size = number(dims_.shared_expert_size), hidden = number(dims_.hidden_size),
             tiles = shared_size / WeightBlock::rows;
  const Region activations = b.shared_activations.first(std::size_t{rows_} * shared_size);
  plan.add(TileGateUp{layer.shared_gate.blocks, layer.shared_up.blocks, b.halves.data(), b.scales.data(),
                      b.shared_activations.data(), rows_, hidden, tiles, layer.shared_gate.guard,
                      layer.shared_up.guard},
           {divide_up(tiles, Multiply::tiles / 2), divide_up(rows_, Multiply::tokens)},
           {b.halves.first(std::size_t{rows_} * hidden), b.scales.first(rows_)}, {activations});
  half_rows(plan, activations, b.shared_halves, b.shared_scales, rows_, shared_size);
  multiply(plan, layer.shared_down, b.shared_halves, b.shared_scales,
           b.shared_y.first(std::size_t{rows_} * hidden));
}

}  // namespace lily::gpu
