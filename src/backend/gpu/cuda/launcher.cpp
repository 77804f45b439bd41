// Loading and launching of kernels.
#include "backend/gpu/cuda/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lily/error.hpp"

namespace lily::gpu::cuda {

Launcher::Launcher(const Gpu& gpu, Bodies bodies) {
  for (const KernelBody& body : dialect_bodies()) {
    kernels_[static_cast<std::size_t>(body.kernel)] = load(body, gpu);
  }
  if (gpu.capability != kHopper || bodies == Bodies::dialect) return;
  for (const KernelBody& body : hopper_bodies()) {
    kernels_[static_cast<std::size_t>(body.kernel)] = load(body, gpu);
  }
  for (const PairBody& pair : hopper_pairs()) pairs_.push_back({pair, load(pair.body, gpu)});
}

Launcher::Loaded Launcher::load(const KernelBody& body, const Gpu& gpu) {
  const std::string_view name = info(body.kernel).name;
  cudaFuncAttributes attributes{};
  const cudaError_t found = cudaFuncGetAttributes(&attributes, body.entry);
  if (found == cudaErrorNoKernelImageForDevice || found == cudaErrorInvalidDeviceFunction) {
    static_cast<void>(cudaGetLastError());
    throw Error(
        ErrorKind::unsupported,
        fmt::format("kernel {} was not compiled for {} (CMake: LILY_CUDA_ARCHITECTURES)", name, gpu.text()));
  }
  check(found, fmt::format("loading kernel {}", name));

  // The code that was loaded is that of the architecture it was compiled for, which may be older than the
  // GPU.
  Loaded kernel{.body = body, .overlaps = attributes.ptxVersion >= kHopper, .tile_bytes = 0};
  if (attributes.ptxVersion >= kHopper) kernel.tile_bytes = body.tile_bytes;
  if (const std::size_t needed = kernel.tile_bytes + attributes.sharedSizeBytes; needed > gpu.block_memory) {
    throw Error(ErrorKind::unsupported,
                fmt::format("kernel {} needs {} bytes of shared memory a block, {} has {}", name, needed,
                            gpu.text(), gpu.block_memory));
  }
  const std::string what = fmt::format("preparing kernel {}", name);
  check(cudaFuncSetAttribute(body.entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(kernel.tile_bytes)),
        what);
  // Kernels overlap only on multiprocessors that need not be divided anew between shared memory and cache.
  if (kernel.overlaps) {
    check(cudaFuncSetAttribute(body.entry, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          what);
  }
  return kernel;
}

const Launcher::Loaded* Launcher::pair_for(const Dispatch& first, const Dispatch& second) const {
  for (const LoadedPair& loaded : pairs_) {
    if (first.kernel == loaded.pair.first && second.kernel == loaded.pair.body.kernel &&
        loaded.pair.fits(first, second)) {
      return &loaded.kernel;
    }
  }
  return nullptr;
}

void Launcher::launch(const Loaded& kernel, const Dispatch& dispatch, std::span<const Dispatch> arguments,
                      bool may_overlap, cudaStream_t stream) const {
  const Grid grid = kernel.body.grid != nullptr ? kernel.body.grid(dispatch) : dispatch.grid;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = {grid.x, grid.y, grid.z};
  config.blockDim = {kernel.body.threads, 1, 1};
  // What a block does not use lets the next kernel's weights come early.
  config.dynamicSmemBytes =
      dispatch.tile_blocks == 0
          ? kernel.tile_bytes
          : std::min(kernel.tile_bytes, std::size_t{dispatch.tile_blocks} * WeightBlock::bytes);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = kernel.overlaps && may_overlap ? 1 : 0;
  std::array<void*, 2> addresses{};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    addresses[i] = const_cast<std::byte*>(arguments[i].arguments.data());
  }
  const cudaError_t result = cudaLaunchKernelExC(&config, kernel.body.entry, addresses.data());
  if (result == cudaSuccess) return;
  check(result, fmt::format("launching kernel {} in {} x {} x {} blocks", info(dispatch.kernel).name, grid.x,
                            grid.y, grid.z));
}

void Launcher::launch(const Plan& plan, cudaStream_t stream) const {
  const std::span<const Dispatch> dispatches = plan.dispatches();
  for (std::size_t i = 0; i < dispatches.size(); ++i) {
    const bool may_overlap = i > 0;
    const Loaded* pair = i + 1 < dispatches.size() ? pair_for(dispatches[i], dispatches[i + 1]) : nullptr;
    if (pair != nullptr) {
      launch(*pair, dispatches[i + 1], dispatches.subspan(i, 2), may_overlap, stream);
      ++i;
    } else {
      launch(kernels_[static_cast<std::size_t>(dispatches[i].kernel)], dispatches[i],
             dispatches.subspan(i, 1), may_overlap, stream);
    }
  }
}

}  // namespace lily::gpu::cuda
