// One launch of a kernel: its arguments and its grid.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "backend/gpu/kernels/kernels.hpp"

namespace lily::gpu {

// Threadgroups of a dispatch.
struct Grid {
  uint x = 1, y = 1, z = 1;
};

constexpr std::size_t kMaxArgumentBytes = 256;

// A kernel, its grid and its arguments.
struct Dispatch {
  KernelId kernel{};
  Grid grid;
  uint tile_blocks = 0;  // that its threadgroups prefetch into
  alignas(8) std::array<std::byte, kMaxArgumentBytes> arguments{};
};

template <class Arguments>
Dispatch make_dispatch(const Arguments& arguments, Grid grid) {
  static_assert(sizeof(Arguments) <= kMaxArgumentBytes);
  Dispatch dispatch{KernelOf<Arguments>::kId, grid, tile_blocks_used(arguments), {}};
  std::memcpy(dispatch.arguments.data(), &arguments, sizeof arguments);
  return dispatch;
}

}  // namespace lily::gpu
