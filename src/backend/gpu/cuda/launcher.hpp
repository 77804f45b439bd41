// The kernels of a GPU, loaded and ready, and their launches.
#pragma once

#include <array>
#include <cstddef>

#include "backend/gpu/cuda/gpu.hpp"
#include "backend/gpu/cuda/kernel_body.hpp"
#include "backend/gpu/cuda/runtime.hpp"
#include "backend/gpu/plan.hpp"

namespace lily::gpu::cuda {

class Launcher {
 public:
  // Loads the code of all kernels. Throws Error: unsupported, naming a kernel and what the GPU lacks for it.
  Launcher(const Gpu& gpu, Bodies bodies);

  // In order. Where the code waits for its predecessor by itself (dialect/overlap.h), a dispatch may begin
  // while the one before it ends; the first of a plan begins when all before it has ended. Dispatches of one
  // level do not run side by side: decode's levels hold one each, and prefill's fill the GPU.
  void launch(const Plan& plan, cudaStream_t stream) const;

 private:
  struct Loaded {
    KernelBody body;
    bool overlaps = false;
    std::size_t tile_bytes = 0;
  };

  static Loaded load(const KernelBody& body, const Gpu& gpu);
  void launch(const Dispatch& dispatch, bool may_overlap, cudaStream_t stream) const;

  std::array<Loaded, kKernelCount> kernels_;
};

}  // namespace lily::gpu::cuda
