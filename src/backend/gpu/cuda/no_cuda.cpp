// Stands for the CUDA driver in builds without it.
#include "backend/gpu/cuda/cuda_device.hpp"
#include "lily/error.hpp"

namespace lily::gpu::cuda {

namespace {

[[noreturn]] void refuse() {
  throw Error(
      ErrorKind::unsupported,
      "backend cuda: this build has no CUDA driver: CMake found no nvcc of 12.4 or newer, or LILY_CUDA or "
      "LILY_SANITIZE left it out");
}

}  // namespace

GpuMemory describe_gpu() { refuse(); }
std::unique_ptr<Device> open_device(Bodies /*bodies*/) { refuse(); }

}  // namespace lily::gpu::cuda
