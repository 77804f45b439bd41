// What decode and prefill record alike: embedding, head, queries and keys, experts token by token.
#include "backend/gpu/forward.hpp"

#include <algorithm>

#include "backend/gpu/select.hpp"

namespace lily::gpu {

int Recorder::index_in_kind(int index) const {
  const auto first = model_.weights.layers.begin();
  return static_cast<int>(std::count_if(first, first + index, [&](const LayerWeights& layer) {
    return layer.kind == layer_weights(index).kind;
  }));
}

void Recorder::embedding(Plan& plan) const {
  EmbedRow a{};
  a.codes = model_.weights.embedding.codes;
  a.scales = model_.weights.embedding.scales;
  a.biases = model_.weights.embedding.biases;
  a.token = inputs_.tokens();
  a.x = pass_.x.data();
  a.vocabulary = number(dims_.vocabulary);
  a.hidden = number(dims_.hidden_size);
  a.bits = model_.weights.embedding.bits;
  a.group_size = model_.weights.embedding.group_size;
  plan.add(a, {1, rows_}, {inputs_.region()}, {x()});
}

void Recorder::head(Plan& plan, uint first, uint count) const {
  const DeviceMatrix& matrix = model_.weights.head;
  const std::size_t hidden = size(dims_.hidden_size);
  HeadProject a{};
  a.weights = matrix.blocks;
  a.x = pass_.x.at(first * hidden);
  a.factor = model_.weights.final_norm;
  a.y = pass_.logits.data();
  a.inputs = matrix.inputs;
  a.planes = matrix.planes;
  a.rows = number(dims_.vocabulary);
  a.groups = head_groups(matrix.tiles, model_.multiprocessors);
  a.eps = eps();
  plan.add(a, {a.groups, count}, {pass_.x.range(first * hidden, count * hidden)},
           {pass_.logits.first(count * size(dims_.vocabulary))});
}

void Recorder::attention_prepare(Plan& plan, const LayerWeights& layer, const KvRegions& kv) const {
  const Grid grid{number(dims_.attention_heads + dims_.kv_heads), rows_};
  const auto fill = [&](auto& a) {
    a.projection = pass_.projection.data();
    a.q_norm = layer.q_norm;
    a.k_norm = layer.k_norm;
    a.turns = model_.weights.turns;
    a.position = inputs_.position();
    a.queries = pass_.queries.data();
    a.heads = number(dims_.attention_heads);
    a.kv_heads = number(dims_.kv_heads);
    a.stride = layer.mixer_in.padded_rows();
    a.k_row = layer.k_row;
    a.v_row = layer.v_row;
    a.capacity = number(sequence_.capacity());
    a.eps = eps();
  };
  if (sequence_.shape().kv == KvFormat::int8) {
    AttentionPrepareInt8 a{};
    fill(a);
    a.keys = address<uint>(kv.keys);
    a.values = address<uint>(kv.values);
    a.key_scales = address<float>(kv.key_scales);
    a.value_scales = address<float>(kv.value_scales);
    plan.add(a, grid, {projection(layer.mixer_in), inputs_.region()},
             {queries(), kv.keys, kv.values, kv.key_scales, kv.value_scales});
  } else {
    AttentionPrepare a{};
    fill(a);
    a.keys = address<half>(kv.keys);
    a.values = address<half>(kv.values);
    plan.add(a, grid, {projection(layer.mixer_in), inputs_.region()}, {queries(), kv.keys, kv.values});
  }
}

void Recorder::split_attention(Plan& plan, const LayerWeights& layer, const KvRegions& kv) const {
  const uint heads = number(dims_.attention_heads), kv_heads = number(dims_.kv_heads),
             splits = attention_splits(number(sequence_.capacity()), kv_heads, model_.multiprocessors);
  const std::size_t shares = std::size_t{rows_} * splits;
  const Region y = inner(dims_.attention_rows()), row = projection(layer.mixer_in),
               partial = pass_.partial.first(shares * size(dims_.attention_rows())),
               maximum = pass_.maximum.first(shares * heads), sums = pass_.sums.first(shares * heads);
  const auto fill = [&](auto& a) {
    a.queries = pass_.queries.data();
    a.position = inputs_.position();
    a.partial = pass_.partial.data();
    a.maximum = pass_.maximum.data();
    a.sums = pass_.sums.data();
    a.heads = heads;
    a.kv_heads = kv_heads;
    a.splits = splits;
    a.capacity = number(sequence_.capacity());
  };
  const Grid grid{kv_heads * splits, rows_};
  if (sequence_.shape().kv == KvFormat::int8) {
    AttentionDecodeInt8 a{};
    fill(a);
    a.keys = address<uchar>(kv.keys);
    a.values = address<uchar>(kv.values);
    a.key_scales = address<float>(kv.key_scales);
    a.value_scales = address<float>(kv.value_scales);
    plan.add(a, grid, {queries(), kv.keys, kv.values, kv.key_scales, kv.value_scales, inputs_.region()},
             {partial, maximum, sums});
  } else {
    AttentionDecode a{};
    fill(a);
    a.keys = address<half>(kv.keys);
    a.values = address<half>(kv.values);
    plan.add(a, grid, {queries(), kv.keys, kv.values, inputs_.region()}, {partial, maximum, sums});
  }
  plan.add(
      AttentionCombine{pass_.partial.data(), pass_.maximum.data(), pass_.sums.data(), pass_.projection.data(),
                       pass_.inner.data(), heads, splits, layer.mixer_in.padded_rows()},
      {heads * AttentionCombine::groups, rows_}, {partial, maximum, sums, row}, {y});
}

void Recorder::experts_by_token(Plan& plan, const LayerWeights& layer, const DeviceMatrix* next) const {
  const uint picks = number(dims_.experts_per_token), expert_size = number(dims_.expert_size),
             shared_size = number(dims_.shared_expert_size), width = picks * expert_size + shared_size;
  const Region logits = router(layer.router),
               activations = pass_.activations.first(std::size_t{rows_} * width);

  RouterProject router{};
  router.router = layer.router.blocks;
  router.shared_gate = layer.shared_gate.blocks;
  router.shared_up = layer.shared_up.blocks;
  router.x = pass_.x.data();
  router.factor = layer.post_attention_norm;
  router.logits = pass_.router.data();
  router.activations = pass_.activations.at(std::size_t{picks} * expert_size);
  router.inputs = number(dims_.hidden_size);
  router.planes = layer.shared_gate.planes;
  router.router_planes = layer.router.planes;
  router.tiles = layer.router.tiles;
  router.activation_stride = width;
  router.eps = eps();
  plan.add(router, {router.tiles + shared_size / WeightBlock::rows, rows_}, {x()}, {logits, activations});

  ExpertGateUp gate_up{};
  gate_up.gate = layer.gate.blocks;
  gate_up.up = layer.up.blocks;
  gate_up.x = pass_.x.data();
  gate_up.factor = layer.post_attention_norm;
  gate_up.logits = pass_.router.data();
  gate_up.activations = pass_.activations.data();
  gate_up.inputs = number(dims_.hidden_size);
  gate_up.planes = layer.gate.planes;
  gate_up.experts = number(dims_.experts);
  gate_up.picks = picks;
  gate_up.expert_size = expert_size;
  gate_up.pairs_per_group = expert_pairs(layer.gate.parts());
  gate_up.logits_stride = layer.router.padded_rows();
  gate_up.activation_stride = width;
  gate_up.eps = eps();
  gate_up.groups = divide_up(picks * expert_size / WeightBlock::rows, gate_up.pairs_per_group);
  if (next != nullptr) {
    gate_up.next = next->blocks;
    gate_up.next_blocks = next->tiles * next->parts();
  }
  plan.add(gate_up, {gate_up.groups, rows_}, {x(), logits, activations}, {activations});

  ExpertDown down{};
  down.down = layer.down.blocks;
  down.shared_down = layer.shared_down.blocks;
  down.activations = pass_.activations.data();
  down.logits = pass_.router.data();
  down.residual = pass_.x.data();
  down.rows = number(dims_.hidden_size);
  down.planes = layer.down.planes;
  down.experts = number(dims_.experts);
  down.picks = picks;
  down.expert_size = expert_size;
  down.shared_size = shared_size;
  down.gate_row = layer.gate_row;
  down.logits_stride = layer.router.padded_rows();
  plan.add(down, {down.rows / WeightBlock::rows, rows_}, {activations, logits, x()}, {x()});
}

}  // namespace lily::gpu
