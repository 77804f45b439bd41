// Records the pass of one token.
#include "backend/gpu/forward.hpp"
#include "backend/gpu/select.hpp"

namespace lily::gpu {

void DecodeRecorder::step(Plan& plan) const {
  embedding(plan);
  for (int index = 0; index < dims_.layer_count(); ++index) layer(plan, index);
}

void DecodeRecorder::layer(Plan& plan, int index) const {
  const LayerWeights& weights = layer_weights(index);
  normed_projection(plan, weights.mixer_in, weights.input_norm);
  if (weights.kind == model::LayerKind::delta_net) {
    delta_net(plan, weights, index_in_kind(index));
  } else {
    attention(plan, weights, index_in_kind(index));
  }
  // The head is too large to gain from a part of it: 908 tok/s with 16 or 32 MB of it as without.
  const bool last = index + 1 == dims_.layer_count();
  experts_by_token(plan, weights, last ? nullptr : &layer_weights(index + 1).mixer_in);
}

void DecodeRecorder::normed_projection(Plan& plan, const DeviceMatrix& matrix, const float* factor) const {
  NormProject a{};
  a.weights = matrix.blocks;
  a.x = pass_.x.data();
  a.factor = factor;
  a.y = pass_.projection.data();
  a.inputs = matrix.inputs;
  a.planes = matrix.planes;
  a.tiles = matrix.tiles;
  a.groups = prefetch_groups(matrix.tiles, matrix.parts(), NormProject::max_tiles, NormProject::tile_blocks,
                             model_.multiprocessors);
  a.each = a.tiles / a.groups;
  a.y_stride = matrix.padded_rows();
  a.eps = eps();
  plan.add(a, {a.groups}, {x()}, {projection(matrix)});
}

void DecodeRecorder::delta_net(Plan& plan, const LayerWeights& layer, int delta_layer) const {
  const Region states = sequence_.states(delta_layer), window = sequence_.window(delta_layer),
               row = projection(layer.mixer_in), y = inner(dims_.value_rows());
  DeltaStep step{};
  step.projection = pass_.projection.data();
  step.convolution = layer.convolution;
  step.rate = layer.rate;
  step.dt_bias = layer.dt_bias;
  step.position = inputs_.position();
  step.step = inputs_.step();
  step.window = address<float>(window);
  step.states = address<float>(states);
  step.y = pass_.inner.data();
  step.key_heads = number(dims_.key_heads);
  step.value_heads = number(dims_.value_heads);
  step.b_row = layer.b_row;
  step.a_row = layer.a_row;
  step.ring = kStateRing;
  step.next = layer.mixer_out.blocks;
  step.next_blocks = layer.mixer_out.tiles * layer.mixer_out.parts();
  plan.add(step, {DeltaStep::parts, step.value_heads}, {row, inputs_.region(), states, window},
           {y, states, window});

  const DeviceMatrix& matrix = layer.mixer_out;
  AddGatedProject out{};
  out.weights = matrix.blocks;
  out.o = pass_.inner.data();
  out.z = pass_.projection.at(layer.z_row);
  out.norm = layer.head_norm;
  out.residual = pass_.x.data();
  out.inputs = matrix.inputs;
  out.planes = matrix.planes;
  out.tiles = matrix.tiles;
  out.groups = prefetch_groups(matrix.tiles, matrix.parts(), AddGatedProject::max_tiles,
                               AddGatedProject::tile_blocks, model_.multiprocessors);
  out.each = out.tiles / out.groups;
  out.rows = number(dims_.hidden_size);
  out.z_stride = layer.mixer_in.padded_rows();
  out.eps = eps();
  plan.add(out, {out.groups}, {y, row, x()}, {x()});
}

void DecodeRecorder::attention(Plan& plan, const LayerWeights& layer, int attention_layer) const {
  const KvRegions kv = sequence_.kv(attention_layer);
  attention_prepare(plan, layer, kv);
  split_attention(plan, layer, kv);
  const Region y = inner(dims_.attention_rows());

  const DeviceMatrix& matrix = layer.mixer_out;
  AddProject out{};
  out.weights = matrix.blocks;
  out.x = pass_.inner.data();
  out.residual = pass_.x.data();
  out.inputs = matrix.inputs;
  out.planes = matrix.planes;
  out.tiles = matrix.tiles;
  out.groups = prefetch_groups(matrix.tiles, matrix.parts(), AddProject::max_tiles, AddProject::tile_blocks,
                               model_.multiprocessors);
  out.each = out.tiles / out.groups;
  out.rows = number(dims_.hidden_size);
  plan.add(out, {out.groups}, {y, x()}, {x()});
}

}  // namespace lily::gpu
