// Looks for a GPU and says why there is none.
#include "backend/gpu/cuda/gpu.hpp"

#include <fmt/format.h>

#include "backend/gpu/cuda/runtime.hpp"
#include "lily/error.hpp"

namespace lily::gpu::cuda {
namespace {

constexpr int kLeastCapability = 80;  // bfloat, asynchronous copies, integer matrix products

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorKind::unsupported, fmt::format("backend cuda: {}", reason));
}

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int count_gpus() {
  int count = 0;
  const cudaError_t result = cudaGetDeviceCount(&count);
  if (result == cudaSuccess && count > 0) return count;
  static_cast<void>(cudaGetLastError());
  int driver = 0, runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  if (driver == 0) refuse("no NVIDIA driver found (libcuda.so.1)");
  if (result == cudaErrorInsufficientDriver) {
    refuse(fmt::format("the NVIDIA driver is for CUDA {}, this build needs {} or newer", version_text(driver),
                       version_text(runtime)));
  }
  if (result == cudaSuccess || result == cudaErrorNoDevice) refuse("the NVIDIA driver shows no GPU");
  check(result, "looking for GPUs");
  return 0;
}

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, index), "reading a GPU's properties");
  return value;
}

Gpu describe(int index) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, index), "reading a GPU's properties");
  return {
      .index = index,
      .name = properties.name,
      .capability = properties.major * 10 + properties.minor,
      .multiprocessors = properties.multiProcessorCount,
      .memory = properties.totalGlobalMem,
      .block_memory = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index))};
}

}  // namespace

std::string Gpu::text() const {
  return fmt::format("GPU {} ({}, compute capability {}.{}, {:.1f} GiB)", index, name, capability / 10,
                     capability % 10, static_cast<double>(memory) / (1 << 30));
}

Gpu find_gpu() {
  std::string seen;
  const int count = count_gpus();
  for (int index = 0; index < count; ++index) {
    Gpu gpu = describe(index);
    if (gpu.capability >= kLeastCapability) return gpu;
    seen += fmt::format("{}{}", seen.empty() ? "" : ", ", gpu.text());
  }
  refuse(fmt::format("compute capability 8.0 or newer is needed; found {}", seen));
}

void make_current(const Gpu& gpu) { check(cudaSetDevice(gpu.index), "choosing a GPU"); }

}  // namespace lily::gpu::cuda
