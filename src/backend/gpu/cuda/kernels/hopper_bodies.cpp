// The table of Hopper's bodies.
#include "backend/gpu/cuda/kernels/hopper_bodies.hpp"

#include <array>
#include <cstring>

#include "backend/gpu/cuda/kernels/shapes.h"

#define LILY_HOPPER_ENTRY(K) extern "C" void K##_hopper();
LILY_HOPPER_ENTRY(TileProject)
LILY_HOPPER_ENTRY(TileAddProject)
LILY_HOPPER_ENTRY(TileGateUp)
LILY_HOPPER_ENTRY(ExpertTileGateUp)
LILY_HOPPER_ENTRY(ExpertTileDown)
LILY_HOPPER_ENTRY(AttentionDecode)
LILY_HOPPER_ENTRY(AttentionDecodeInt8)
LILY_HOPPER_ENTRY(AttentionStep)
LILY_HOPPER_ENTRY(AttentionStepInt8)
LILY_HOPPER_ENTRY(AttentionPrefill)
LILY_HOPPER_ENTRY(DeltaChunkScan)
#undef LILY_HOPPER_ENTRY

namespace lily::gpu::cuda {
namespace {

// These blocks have 128 rows where the dialect's have 64.
Grid half_as_high(const Dispatch& dispatch) {
  return {dispatch.grid.x, (dispatch.grid.y + 1) / 2, dispatch.grid.z};
}

template <class Arguments>
Arguments arguments_of(const Dispatch& dispatch) {
  Arguments arguments;
  std::memcpy(&arguments, dispatch.arguments.data(), sizeof arguments);
  return arguments;
}

// Attention of one token, and what prepares it and nothing else.
template <class Prepare, class Decode>
bool is_one_step(const Dispatch& first, const Dispatch& second) {
  const auto rows = arguments_of<Prepare>(first);
  const auto step = arguments_of<Decode>(second);
  const auto same = [](const void* a, const void* b) { return a == b; };
  return first.grid.y == 1 && second.grid.y == 1 && same(rows.queries, step.queries) &&
         same(rows.keys, step.keys) && same(rows.values, step.values) && same(rows.position, step.position) &&
         rows.heads == step.heads && rows.kv_heads == step.kv_heads && rows.capacity == step.capacity;
}

}  // namespace

std::span<const KernelBody> hopper_bodies() {
  using hopper::Attention128;
  using hopper::AttentionSplitCodes;
  using hopper::AttentionSplitHalves;
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
      LILY_HOPPER_BODY(AttentionDecode, AttentionSplitHalves, nullptr),
      LILY_HOPPER_BODY(AttentionDecodeInt8, AttentionSplitCodes, nullptr),
      LILY_HOPPER_BODY(AttentionPrefill, Attention128, half_as_high),
      LILY_HOPPER_BODY(DeltaChunkScan, DeltaScan256, nullptr),
  };
#undef LILY_HOPPER_BODY
  return kBodies;
}

std::span<const PairBody> hopper_pairs() {
  using hopper::AttentionSplitCodes;
  using hopper::AttentionSplitHalves;
  static const std::array kPairs{
      PairBody{KernelId::AttentionPrepare_id,
               {KernelId::AttentionDecode_id, reinterpret_cast<const void*>(&AttentionStep_hopper),
                AttentionSplitHalves::threads, AttentionSplitHalves::shared_bytes, nullptr},
               is_one_step<AttentionPrepare, AttentionDecode>},
      PairBody{KernelId::AttentionPrepareInt8_id,
               {KernelId::AttentionDecodeInt8_id, reinterpret_cast<const void*>(&AttentionStepInt8_hopper),
                AttentionSplitCodes::threads, AttentionSplitCodes::shared_bytes, nullptr},
               is_one_step<AttentionPrepareInt8, AttentionDecodeInt8>},
  };
  return kPairs;
}

}  // namespace lily::gpu::cuda
