// The table of Hopper's bodies.
#include "backend/gpu/cuda/kernels/hopper_bodies.hpp"

#include <array>

#include "backend/gpu/cuda/kernels/shapes.h"

#define LILY_HOPPER_ENTRY(K) extern "C" void K##_hopper();
LILY_HOPPER_ENTRY(TileProject)
LILY_HOPPER_ENTRY(TileAddProject)
LILY_HOPPER_ENTRY(TileGateUp)
LILY_HOPPER_ENTRY(ExpertTileGateUp)
LILY_HOPPER_ENTRY(ExpertTileDown)
LILY_HOPPER_ENTRY(AttentionPrefill)
LILY_HOPPER_ENTRY(DeltaChunkScan)
#undef LILY_HOPPER_ENTRY

#ifndef LILY_MULTIPLY_WARPS
#define LILY_MULTIPLY_WARPS 8
#endif

namespace lily::gpu::cuda {
namespace {

// These blocks have 128 rows where the dialect's have 64.
Grid half_as_high(const Dispatch& dispatch) {
  return {dispatch.grid.x, (dispatch.grid.y + 1) / 2, dispatch.grid.z};
}

Grid dense(const Dispatch& dispatch) { return {(dispatch.grid.x * 8 + LILY_MULTIPLY_WARPS - 1) / LILY_MULTIPLY_WARPS, (dispatch.grid.y + 1) / 2, 1}; }
Grid grouped(const Dispatch& dispatch) { return {(dispatch.grid.x * 8 + LILY_MULTIPLY_WARPS - 1) / LILY_MULTIPLY_WARPS, dispatch.grid.y, 1}; }

}  // namespace

std::span<const KernelBody> hopper_bodies() {
  using hopper::Attention128;
  using hopper::DeltaScan256;
  using Multiply128 = hopper::MultiplyShape<LILY_MULTIPLY_WARPS>;
#define LILY_HOPPER_BODY(K, shape, grid)                                                                    \
  KernelBody {                                                                                              \
    KernelId::K##_id, reinterpret_cast<const void*>(&K##_hopper), shape::threads, shape::shared_bytes, grid \
  }
  static const std::array kBodies{
      LILY_HOPPER_BODY(TileProject, Multiply128, dense),
      LILY_HOPPER_BODY(TileAddProject, Multiply128, dense),
      LILY_HOPPER_BODY(TileGateUp, Multiply128, dense),
      LILY_HOPPER_BODY(ExpertTileGateUp, Multiply128, grouped),
      LILY_HOPPER_BODY(ExpertTileDown, Multiply128, grouped),
      LILY_HOPPER_BODY(AttentionPrefill, Attention128, half_as_high),
      LILY_HOPPER_BODY(DeltaChunkScan, DeltaScan256, nullptr),
  };
#undef LILY_HOPPER_BODY
  return kBodies;
}

}  // namespace lily::gpu::cuda
