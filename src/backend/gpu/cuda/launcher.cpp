// Loading and launching of kernels.
#include "backend/gpu/cuda/launcher.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "backend/gpu/cuda/kernels/hopper_bodies.hpp"
#include "lily/error.hpp"

namespace lily::gpu::cuda {

namespace {

// Kernels overlap only on multiprocessors that need not be divided anew, so all ask for the most shared
// memory, but for those that read so much through the first-level cache that they want it large: on an H200 a
// token at depth 512 takes 1,300 us so, and 1,327 with the most shared memory everywhere.
bool streams(KernelId kernel) {
  switch (kernel) {
    case KernelId::AttentionDecode_id:
    case KernelId::AttentionDecodeInt8_id:
    case KernelId::HeadBest_id:
    case KernelId::HeadProject_id:
      return true;
    default:
      return false;
  }
}

}  // namespace

Launcher::Launcher(const Gpu& gpu, Bodies bodies) {
  for (const KernelBody& body : dialect_bodies()) {
    kernels_[static_cast<std::size_t>(body.kernel)] = load(body, gpu);
  }
  if (gpu.capability != kHopper || bodies == Bodies::dialect) return;
  for (const KernelBody& body : hopper_bodies()) {
    kernels_[static_cast<std::size_t>(body.kernel)] = load(body, gpu);
  }
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
  check(cudaFuncSetAttribute(
            body.entry, cudaFuncAttributePreferredSharedMemoryCarveout,
            streams(body.kernel) ? cudaSharedmemCarveoutDefault : cudaSharedmemCarveoutMaxShared),
        what);
  return kernel;
}

void Launcher::launch(const Dispatch& dispatch, bool may_overlap, cudaStream_t stream) const {
  const Loaded& kernel = kernels_[static_cast<std::size_t>(dispatch.kernel)];
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
  std::array<void*, 1> arguments{const_cast<std::byte*>(dispatch.arguments.data())};
  const cudaError_t result = cudaLaunchKernelExC(&config, kernel.body.entry, arguments.data());
  if (result == cudaSuccess) return;
  check(result, fmt::format("launching kernel {} in {} x {} x {} blocks", info(dispatch.kernel).name, grid.x,
                            grid.y, grid.z));
}

void Launcher::launch(const Plan& plan, cudaStream_t stream) const {
  bool first = true;
  for (const Dispatch& dispatch : plan.dispatches()) {
    launch(dispatch, !first, stream);
    first = false;
  }
}

}  // namespace lily::gpu::cuda
