// Records a pass of some tokens through the model.
#include "backend/gpu/forward.hpp"

#include <algorithm>

#include "backend/gpu/select.hpp"

namespace lily::gpu {
namespace {

// Regions are ranges of addresses; kernels want them typed.
template <class T>
T* begin_of(const Region& r) {
  return static_cast<T*>(const_cast<void*>(r.begin));
}

uint size_of(int value) { return static_cast<uint>(value); }

}  // namespace

void Recorder::embedding(Plan& plan) const {
  const uint hidden = size_of(model_.dims.hidden_size);
  EmbedRow a{};
  a.codes = model_.weights.embedding.codes;
  a.scales = model_.weights.embedding.scales;
  a.biases = model_.weights.embedding.biases;
  a.token = buffers_.tokens.as<uint>();
  a.x = buffers_.x.as<float>();
  a.vocabulary = size_of(model_.dims.vocabulary);
  a.hidden = hidden;
  a.bits = model_.weights.embedding.bits;
  a.group_size = model_.weights.embedding.group_size;
  plan.add(a, {1, rows_}, {region(buffers_.tokens.as<uint>(), rows_)}, {used(buffers_.x, hidden)});
}

void Recorder::layer(Plan& plan, int index) const {
  const LayerWeights& weights = model_.weights.layers[static_cast<std::size_t>(index)];
  const auto before = model_.weights.layers.begin();
  const auto same =
      std::count_if(before, before + index, [&](const LayerWeights& l) { return l.kind == weights.kind; });
  if (weights.kind == model::LayerKind::delta_net) {
    delta_net(plan, weights, static_cast<int>(same));
  } else {
    attention(plan, weights, static_cast<int>(same));
  }
  experts(plan, weights);
}

void Recorder::normed_projection(Plan& plan, const DeviceMatrix& matrix, const float* factor,
                                 const DeviceMemory& y) const {
  NormProject a{};
  a.weights = matrix.blocks;
  a.x = buffers_.x.as<float>();
  a.factor = factor;
  a.y = y.as<float>();
  a.inputs = matrix.inputs;
  a.planes = matrix.planes;
  a.tiles = matrix.tiles;
  a.groups = prefetch_groups(matrix.tiles, matrix.parts(), NormProject::max_tiles, NormProject::tile_blocks,
                             model_.multiprocessors);
  a.y_stride = matrix.padded_rows();
  a.eps = static_cast<float>(model_.dims.rms_norm_eps);
  plan.add(a, {a.groups, rows_}, {used(buffers_.x, a.inputs)}, {used(y, a.y_stride)});
}

void Recorder::delta_net(Plan& plan, const LayerWeights& layer, int delta_layer) const {
  const model::Dimensions& dims = model_.dims;
  const uint stride = layer.mixer_in.padded_rows(), hidden = size_of(dims.hidden_size),
             inner = size_of(dims.value_rows()), channels = size_of(dims.conv_channels());
  const Region projection = used(buffers_.projection, stride), y = used(buffers_.inner, inner),
               x = used(buffers_.x, hidden), states = sequence_.states(delta_layer),
               window = sequence_.window(delta_layer), counters = sequence_.counters();
  normed_projection(plan, layer.mixer_in, layer.input_norm, buffers_.projection);

  DeltaStep step{};
  step.projection = buffers_.projection.as<float>();
  step.convolution = layer.convolution;
  step.rate = layer.rate;
  step.dt_bias = layer.dt_bias;
  step.position = sequence_.position_counter();
  step.step = sequence_.step_counter();
  step.window = begin_of<float>(window);
  step.states = begin_of<float>(states);
  step.y = buffers_.inner.as<float>();
  step.tokens = rows_;
  step.key_heads = size_of(dims.key_heads);
  step.value_heads = size_of(dims.value_heads);
  step.stride = stride;
  step.b_row = layer.b_row;
  step.a_row = layer.a_row;
  step.ring = kStateRing;
  const Region written = rows_ == 1 ? window : Region{};
  plan.add(step, {DeltaStep::parts, step.value_heads}, {projection, counters, states, window},
           {y, states, written});
  if (rows_ > 1) {
    plan.add(DeltaWindow{step.projection, step.position, step.window, rows_, channels, stride},
             {(channels + DeltaWindow::threads - 1) / DeltaWindow::threads}, {projection, counters},
             {window});
  }

  AddGatedProject out{};
  out.weights = layer.mixer_out.blocks;
  out.o = buffers_.inner.as<float>();
  out.z = buffers_.projection.as<float>(layer.z_row);
  out.norm = layer.head_norm;
  out.residual = buffers_.x.as<float>();
  out.inputs = inner;
  out.planes = layer.mixer_out.planes;
  out.tiles = layer.mixer_out.tiles;
  out.groups = prefetch_groups(out.tiles, layer.mixer_out.parts(), AddGatedProject::max_tiles,
                               AddGatedProject::tile_blocks, model_.multiprocessors);
  out.rows = hidden;
  out.z_stride = stride;
  out.eps = static_cast<float>(dims.rms_norm_eps);
  plan.add(out, {out.groups, rows_}, {y, projection, x}, {x});
}

void Recorder::attention(Plan& plan, const LayerWeights& layer, int attention_layer) const {
  const model::Dimensions& dims = model_.dims;
  const uint stride = layer.mixer_in.padded_rows(), hidden = size_of(dims.hidden_size),
             inner = size_of(dims.attention_rows()), heads = size_of(dims.attention_heads),
             kv_heads = size_of(dims.kv_heads), capacity = size_of(sequence_.capacity());
  const uint splits = attention_splits(capacity, kv_heads, rows_, model_.multiprocessors);
  const Region projection = used(buffers_.projection, stride), y = used(buffers_.inner, inner),
               queries = used(buffers_.queries, inner), x = used(buffers_.x, hidden),
               keys = sequence_.keys(attention_layer), values = sequence_.values(attention_layer),
               partial = used(buffers_.partial, splits * inner),
               maximum = used(buffers_.maximum, splits * heads), sums = used(buffers_.sums, splits * heads),
               counters = sequence_.counters();
  normed_projection(plan, layer.mixer_in, layer.input_norm, buffers_.projection);

  AttentionPrepare prepare{};
  prepare.projection = buffers_.projection.as<float>();
  prepare.q_norm = layer.q_norm;
  prepare.k_norm = layer.k_norm;
  prepare.turns = model_.weights.turns;
  prepare.position = sequence_.position_counter();
  prepare.queries = buffers_.queries.as<float>();
  prepare.keys = begin_of<half>(keys);
  prepare.values = begin_of<half>(values);
  prepare.heads = heads;
  prepare.kv_heads = kv_heads;
  prepare.stride = stride;
  prepare.k_row = layer.k_row;
  prepare.v_row = layer.v_row;
  prepare.capacity = capacity;
  prepare.eps = static_cast<float>(dims.rms_norm_eps);
  plan.add(prepare, {heads + kv_heads, rows_}, {projection, counters}, {queries, keys, values});

  AttentionSplit split{};
  split.queries = prepare.queries;
  split.keys = prepare.keys;
  split.values = prepare.values;
  split.position = prepare.position;
  split.partial = buffers_.partial.as<float>();
  split.maximum = buffers_.maximum.as<float>();
  split.sums = buffers_.sums.as<float>();
  split.heads = heads;
  split.kv_heads = kv_heads;
  split.splits = splits;
  split.capacity = capacity;
  plan.add(split, {kv_heads * splits, rows_}, {queries, keys, values, counters}, {partial, maximum, sums});

  plan.add(AttentionCombine{split.partial, split.maximum, split.sums, prepare.projection,
                            buffers_.inner.as<float>(), heads, splits, stride},
           {heads, rows_}, {partial, maximum, sums, projection}, {y});

  AddProject out{};
  out.weights = layer.mixer_out.blocks;
  out.x = buffers_.inner.as<float>();
  out.residual = buffers_.x.as<float>();
  out.inputs = inner;
  out.planes = layer.mixer_out.planes;
  out.tiles = layer.mixer_out.tiles;
  out.groups = prefetch_groups(out.tiles, layer.mixer_out.parts(), AddProject::max_tiles,
                               AddProject::tile_blocks, model_.multiprocessors);
  out.rows = hidden;
  plan.add(out, {out.groups, rows_}, {y, x}, {x});
}

void Recorder::experts(Plan& plan, const LayerWeights& layer) const {
  const model::Dimensions& dims = model_.dims;
  const uint hidden = size_of(dims.hidden_size), picks = size_of(dims.experts_per_token),
             expert_size = size_of(dims.expert_size), shared_size = size_of(dims.shared_expert_size),
             width = picks * expert_size + shared_size, stride = layer.router.padded_rows();
  const Region x = used(buffers_.x, hidden), router = used(buffers_.router, stride),
               activations = used(buffers_.activations, width);
  normed_projection(plan, layer.router, layer.post_attention_norm, buffers_.router);

  ExpertGateUp in_proj{};
  in_proj.gate = layer.gate.blocks;
  in_proj.up = layer.up.blocks;
  in_proj.shared_gate = layer.shared_gate.blocks;
  in_proj.shared_up = layer.shared_up.blocks;
  in_proj.x = buffers_.x.as<float>();
  in_proj.factor = layer.post_attention_norm;
  in_proj.logits = buffers_.router.as<float>();
  in_proj.activations = buffers_.activations.as<float>();
  in_proj.inputs = hidden;
  in_proj.planes = layer.gate.planes;
  in_proj.experts = size_of(dims.experts);
  in_proj.picks = picks;
  in_proj.expert_size = expert_size;
  in_proj.shared_size = shared_size;
  in_proj.pairs_per_group = expert_pairs(layer.gate.parts());
  in_proj.logits_stride = stride;
  in_proj.eps = static_cast<float>(dims.rms_norm_eps);
  const uint pairs = width / WeightBlock::rows;
  plan.add(in_proj, {(pairs + in_proj.pairs_per_group - 1) / in_proj.pairs_per_group, rows_}, {x, router},
           {activations});

  ExpertDown down{};
  down.down = layer.down.blocks;
  down.shared_down = layer.shared_down.blocks;
  down.activations = in_proj.activations;
  down.logits = in_proj.logits;
  down.residual = buffers_.x.as<float>();
  down.rows = hidden;
  down.planes = layer.down.planes;
  down.experts = in_proj.experts;
  down.picks = picks;
  down.expert_size = expert_size;
  down.shared_size = shared_size;
  down.gate_row = layer.gate_row;
  down.logits_stride = stride;
  plan.add(down, {hidden / WeightBlock::rows, rows_}, {activations, router, x}, {x});
}

void Recorder::head(Plan& plan, uint first) const {
  const DeviceMatrix& matrix = model_.weights.head;
  HeadProject a{};
  a.weights = matrix.blocks;
  a.x = buffers_.x.as<float>(std::size_t{first} * matrix.inputs);
  a.factor = model_.weights.final_norm;
  a.y = buffers_.logits.as<float>();
  a.inputs = matrix.inputs;
  a.planes = matrix.planes;
  a.rows = size_of(model_.dims.vocabulary);
  a.groups = head_groups(matrix.tiles, model_.multiprocessors);
  a.eps = static_cast<float>(model_.dims.rms_norm_eps);
  const std::size_t count = rows_ - first;
  plan.add(a, {a.groups, rows_ - first}, {region(a.x, count * a.inputs)}, {region(a.y, count * a.rows)});
}

}  // namespace lily::gpu
