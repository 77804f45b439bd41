// Runs kernels on the host: one fiber per GPU thread, one threadgroup after the other.
//
// A lane runs until a simd function or a barrier; when all 32 (or all of the threadgroup) have arrived they
// go on. So a kernel runs as it is, with any control flow. Threadgroup memory starts as NaN bits, lanes run
// in one of three orders, and these faults stop the run with Error(internal) that names kernel, threadgroup,
// threads and lines:
//
//   lanes that meet at different simd functions, or of which some have returned
//   threads of a threadgroup that wait at different barriers, or of which some have returned
//   a vector access that is not aligned to its size
//   a tile of weights that is waited for too early, used before it is ready, or not the one prefetched
//   more than 1024 threads, a number of threads that is no multiple of 32, more than 32 KiB of threadgroup
//   memory
//
// A missing barrier shows as results that differ between the orders, an access out of bounds under the
// address sanitizer. Races between threadgroups are not seen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/gpu/dispatch.hpp"
#include "base/thread_pool.hpp"

namespace lily::gpu::emulator {

// A kernel as the macro GPU_KERNEL leaves it.
struct Kernel {
  const char* name = nullptr;
  uint threads = 0;
  std::size_t shared_bytes = 0;
  uint tile_blocks = 0;
  void (*entry)(const void* arguments, void* threadgroup_memory, Thread thread) = nullptr;
};

template <class Arguments>
Kernel make_kernel(const char* name, void (*entry)(const void*, void*, Thread)) {
  return {name, Arguments::threads, sizeof(typename Arguments::Shared), tile_blocks<Arguments>(), entry};
}

// The order in which lanes and simdgroups run between meetings, threadgroups in a grid, and dispatches of one
// level of a plan.
enum class LaneOrder { forward, backward, shuffled };

struct Statistics {
  std::uint64_t threadgroups = 0;
  std::uint64_t meetings = 0;
  std::uint64_t switches = 0;
};

// Runs every threadgroup of the grid; with a pool, threadgroups run in parallel. Throws Error(internal) on a
// fault.
Statistics run(const Kernel& kernel, const void* arguments, Grid grid, LaneOrder order = LaneOrder::forward,
               ThreadPool* pool = nullptr);

}  // namespace lily::gpu::emulator
