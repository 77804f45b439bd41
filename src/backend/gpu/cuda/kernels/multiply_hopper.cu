// Hopper's products of many tokens: the kernels.
#include "backend/gpu/cuda/kernels/multiply.h"

namespace lily::gpu::hopper {

LILY_HOPPER_KERNEL(TileProject, Multiply128::threads, 2) {
  allow_next();
  wait_for_previous();
  uint first = blockIdx.y * Multiply128::tokens, count = min(a.tokens - first, Multiply128::tokens + 0u);
  set_rows([&](uint i) { return first + i; }, a.scale, count);
  with_columns(count, DenseProduct<false>{a.weights, a.x, a.y, a.inputs, a.planes, a.tiles, a.y_stride, first,
                                          count, a.guard});
}

LILY_HOPPER_KERNEL(TileAddProject, Multiply128::threads, 2) {
  allow_next();
  wait_for_previous();
  uint first = blockIdx.y * Multiply128::tokens, count = min(a.tokens - first, Multiply128::tokens + 0u);
  set_rows([&](uint i) { return first + i; }, a.scale, count);
  with_columns(count, DenseProduct<true>{a.weights, a.x, a.residual, a.inputs, a.planes, a.tiles,
                                         a.tiles * 16, first, count, a.guard});
}

LILY_HOPPER_KERNEL(TileGateUp, Multiply128::threads, 2) {
  allow_next();
  wait_for_previous();
  uint first = blockIdx.y * Multiply128::tokens, count = min(a.tokens - first, Multiply128::tokens + 0u);
  set_rows([&](uint i) { return first + i; }, a.scale, count);
  with_columns(
      count, GatedProduct{a.gate, a.up, a.x, a.y, a.inputs, a.tiles, first, count, a.gate_guard, a.up_guard});
}

LILY_HOPPER_KERNEL(ExpertTileGateUp, Multiply128::threads, 2) {
  allow_next();
  wait_for_previous();
  ExpertRows rows = expert_rows(a.offset, a.tile_expert, a.tile_first);
  if (rows.count == 0) return;
  set_rows([&](uint i) { return a.order[rows.first + i] / a.picks; }, a.scale, rows.count);
  ulong matrix = ulong(rows.expert) * a.tiles * ((a.inputs + WeightBlock::inputs - 1) / WeightBlock::inputs) *
                 WeightBlock::bytes;
  with_columns(rows.count, GatedProduct{a.gate + matrix, a.up + matrix, a.x, a.activations, a.inputs, a.tiles,
                                        rows.first, rows.count, a.gate_guard, a.up_guard});
}

LILY_HOPPER_KERNEL(ExpertTileDown, Multiply128::threads, 2) {
  allow_next();
  wait_for_previous();
  ExpertRows rows = expert_rows(a.offset, a.tile_expert, a.tile_first);
  if (rows.count == 0) return;
  set_rows([&](uint i) { return rows.first + i; }, a.scale, rows.count);
  if (blockIdx.x == 0 && threadIdx.x < rows.count) {
    a.y_scale[a.order[rows.first + threadIdx.x]] = a.scale[rows.first + threadIdx.x];
  }
  ulong matrix = ulong(rows.expert) * a.tiles * ((a.inputs + WeightBlock::inputs - 1) / WeightBlock::inputs) *
                 WeightBlock::bytes;
  with_columns(rows.count, ScatteredProduct{a.down + matrix, a.x, a.y, a.order, a.inputs, a.tiles, rows.first,
                                            rows.count, a.guard});
}

}  // namespace lily::gpu::hopper
