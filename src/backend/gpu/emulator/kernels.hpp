// The kernels as the emulator runs them.
#pragma once

#include "backend/gpu/emulator/emulator.hpp"
#include "backend/gpu/kernels/kernels.hpp"

namespace lily::gpu::emulator {

const Kernel& kernel(KernelId id);

// Runs a kernel of the list: run(TopExperts{..}, {groups}).
template <class Arguments>
Statistics run(const Arguments& arguments, Grid grid, LaneOrder order = LaneOrder::forward,
               ThreadPool* pool = nullptr) {
  return run(kernel(KernelOf<Arguments>::kId), &arguments, grid, order, pool);
}

}  // namespace lily::gpu::emulator
