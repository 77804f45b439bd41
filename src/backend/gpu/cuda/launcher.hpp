// The kernels of a GPU, loaded and ready, and their launches.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "backend/gpu/cuda/gpu.hpp"
#include "backend/gpu/cuda/kernel_body.hpp"
#include "backend/gpu/cuda/kernels/hopper_bodies.hpp"
#include "backend/gpu/cuda/runtime.hpp"
#include "backend/gpu/plan.hpp"

namespace lily::gpu::cuda {

class Launcher {
 public:
  // Loads the code of all kernels. Throws Error: unsupported, naming a kernel and what the GPU lacks for it.
  Launcher(const Gpu& gpu, Bodies bodies);

  // In order. Where the code waits for its predecessor by itself (dialect/overlap.h), a dispatch may begin
  // while the one before it ends; the first of a plan begins when all before it has ended. Dispatches of one
  // level do not run side by side: decode's levels hold one each, and prefill's fill the GPU. Two dispatches
  // for which there is one body are launched as one.
  void launch(const Plan& plan, cudaStream_t stream) const;

 private:
  struct Loaded {
    KernelBody body;
    bool overlaps = false;
    std::size_t tile_bytes = 0;
  };

  // A kernel that stands for two dispatches.
  struct LoadedPair {
    PairBody pair;
    Loaded kernel;
  };

  static Loaded load(const KernelBody& body, const Gpu& gpu);
  // Null: the two are launched one by one.
  const Loaded* pair_for(const Dispatch& first, const Dispatch& second) const;
  // With the arguments of one dispatch, or of the one before it as well.
  void launch(const Loaded& kernel, const Dispatch& dispatch, std::span<const Dispatch> arguments,
              bool may_overlap, cudaStream_t stream) const;

  std::array<Loaded, kKernelCount> kernels_;
  std::vector<LoadedPair> pairs_;
};

}  // namespace lily::gpu::cuda
