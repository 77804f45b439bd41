// What the driver launches for a kernel of the list: an entry point and how it wants to be launched.
#pragma once

#include <cstddef>
#include <span>

#include "backend/gpu/dispatch.hpp"

namespace lily::gpu::cuda {

// The compute capability whose own instructions (bulk copies, griddepcontrol, wgmma) kernels may use.
constexpr int kHopper = 90;

// Which of a kernel's bodies run: the machine's own where it has one, or only what all machines share.
enum class Bodies { fastest, dialect };

struct KernelBody {
  KernelId kernel{};
  const void* entry = nullptr;  // the host's name of a __global__ function that takes the kernel's arguments
  uint threads = 0;
  std::size_t tile_bytes = 0;               // dynamic shared memory, where code for kHopper runs
  Grid (*grid)(const Dispatch&) = nullptr;  // null: the dispatch's own
};

// The dialect's kernels, one per id in its order.
std::span<const KernelBody> dialect_bodies();

}  // namespace lily::gpu::cuda
