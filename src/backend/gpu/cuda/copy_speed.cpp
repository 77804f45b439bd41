// Times copies within the GPU.
#include "backend/gpu/cuda/copy_speed.hpp"

#include <algorithm>
#include <cstddef>

namespace lily::gpu::cuda {
namespace {

using Block = std::unique_ptr<void, Destroy<cudaFree>>;

Block try_allocate(std::size_t bytes) {
  void* address = nullptr;
  if (cudaMalloc(&address, bytes) == cudaSuccess) return Block(address);
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

}  // namespace

double copy_speed(cudaStream_t stream) {
  constexpr std::size_t kMost = std::size_t{512} << 20, kLeast = std::size_t{64} << 20;
  constexpr int kRepeats = 5;
  // Beside a model there may be little memory left.
  std::size_t bytes = kMost;
  Block block = try_allocate(2 * bytes);
  while (block == nullptr && bytes > kLeast) {
    bytes /= 2;
    block = try_allocate(2 * bytes);
  }
  if (block == nullptr) check(cudaErrorMemoryAllocation, "allocating 128 MiB to measure the memory's speed");

  auto* const half = static_cast<std::byte*>(block.get());
  check(cudaMemsetAsync(half, 1, 2 * bytes, stream), "measuring the memory's speed");
  const Event begin = new_event(true), end = new_event(true);
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    check(cudaEventRecord(begin.get(), stream), "measuring the memory's speed");
    check(cudaMemcpyAsync(half + bytes, half, bytes, cudaMemcpyDeviceToDevice, stream),
          "measuring the memory's speed");
    check(cudaEventRecord(end.get(), stream), "measuring the memory's speed");
    check(cudaEventSynchronize(end.get()), "measuring the memory's speed");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "measuring the memory's speed");
    best = std::max(best, 2.0 * static_cast<double>(bytes) / (1e6 * static_cast<double>(milliseconds)));
  }
  return best;
}

}  // namespace lily::gpu::cuda
