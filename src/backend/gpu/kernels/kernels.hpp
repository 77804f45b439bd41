// The host's view of the kernels: an id per kernel, found by the type of its arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "backend/gpu/kernels/args.h"
#include "backend/gpu/kernels/list.h"

namespace lily::gpu {

// NOLINTBEGIN(readability-identifier-naming): a kernel's id bears its name
#define LILY_GPU_KERNEL_ID(K) K##_id,
enum class KernelId { LILY_GPU_KERNELS(LILY_GPU_KERNEL_ID) count };
// NOLINTEND(readability-identifier-naming)
#undef LILY_GPU_KERNEL_ID

constexpr std::size_t kKernelCount = static_cast<std::size_t>(KernelId::count);

// KernelOf<K>::kId is the kernel that takes the argument struct K.
template <class Arguments>
struct KernelOf;
#define LILY_GPU_KERNEL_OF(K)                         \
  template <>                                         \
  struct KernelOf<K> {                                \
    static constexpr KernelId kId = KernelId::K##_id; \
  };
LILY_GPU_KERNELS(LILY_GPU_KERNEL_OF)
#undef LILY_GPU_KERNEL_OF

// Blocks of tile memory that a kernel prefetches into.
template <class Arguments>
constexpr uint tile_blocks() {
  if constexpr (requires { Arguments::tile_blocks; }) {
    return Arguments::tile_blocks;
  } else {
    return 0;
  }
}

// How many of them a threadgroup with these arguments prefetches into at most: room that is not taken lets
// the next dispatch begin on the same multiprocessor.
template <class Arguments>
uint tile_blocks_used(const Arguments& a) {
  if constexpr (tile_blocks<Arguments>() == 0) {
    return 0;
  } else {
    const auto divide_up = [](uint n, uint by) { return (n + by - 1) / by; };
    const auto blocks = [&](uint inputs) { return divide_up(inputs, WeightBlock::inputs) * a.planes; };
    if constexpr (requires { a.router_planes; }) {
      return std::max(divide_up(a.inputs, WeightBlock::inputs) * a.router_planes, 2 * blocks(a.inputs));
    } else if constexpr (requires { a.pairs_per_group; }) {
      return 2 * a.pairs_per_group * blocks(a.inputs);
    } else if constexpr (requires { a.picks; }) {
      return a.picks * blocks(a.expert_size) + blocks(a.shared_size);
    } else {
      return divide_up(a.tiles, a.groups) * blocks(a.inputs);
    }
  }
}

// What a driver needs to launch a kernel; the grid comes with each dispatch.
struct KernelInfo {
  std::string_view name;
  uint threads;
  uint tile_blocks;
};
#define LILY_GPU_KERNEL_INFO(K) KernelInfo{#K, K::threads, tile_blocks<K>()},
inline constexpr std::array<KernelInfo, kKernelCount> kKernels{LILY_GPU_KERNELS(LILY_GPU_KERNEL_INFO)};
#undef LILY_GPU_KERNEL_INFO

inline const KernelInfo& info(KernelId id) { return kKernels[static_cast<std::size_t>(id)]; }

}  // namespace lily::gpu
