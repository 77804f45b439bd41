// Stands for the CUDA driver in builds without a CUDA compiler.
#include "backend/gpu/cuda/cuda_device.hpp"
#include "lily/error.hpp"

namespace lily::gpu::cuda {

namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorKind::unsupported,
              "backend cuda: this build has no CUDA driver, because CMake found no nvcc");
}

}  // namespace

GpuMemory describe_gpu() { refuse(); }
std::unique_ptr<Device> open_device(Bodies /*bodies*/) { refuse(); }

}  // namespace lily::gpu::cuda
