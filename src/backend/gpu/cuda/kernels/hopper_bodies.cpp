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

namespace lily::gpu::cuda {
namespace {

// These blocks have 128 rows where the dialect's have 64.
Grid half_as_high(const Dispatch& dispatch) {
  return {dispatch.grid.x, (dispatch.grid.y + 1) / 2, dispatch.grid.z};
}

}  // namespace

std::span<const KernelBody> hopper_bodies() {
  using hopper::Attention128;
  using hopper::DeltaScan256;
  using hopper::Multiply128;
#define LILY_HOPPER_BODY(K, shape, grid)                                                                    \
  KernelBody {                                                                                              \
    KernelId::K##_id, reinterpret_cast<const void*>(&K##_hopper), shape::threads, shape::shared_bytes, grid \
  }
  static const std::array kBodies{
      LILY_HOPPER_BODY(TileProject, Multiply128, half_as_high),
      LILY_HOPPER_BODY(TileAddProject, Multiply128, half_as_high),
      LILY_HOPPER_BODY(TileGateUp, Multiply128, half_as_high),
      LILY_HOPPER_BODY(ExpertTileGateUp, Multiply128, nullptr),
      LILY_HOPPER_BODY(ExpertTileDown, Multiply128, nullptr),
      LILY_HOPPER_BODY(AttentionPrefill, Attention128, half_as_high),
      LILY_HOPPER_BODY(DeltaChunkScan, DeltaScan256, nullptr),
  };
#undef LILY_HOPPER_BODY
  return kBodies;
}

}  // namespace lily::gpu::cuda
