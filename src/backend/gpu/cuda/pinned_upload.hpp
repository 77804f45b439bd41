// Uploads through page-locked memory, which the GPU reads by itself while the host's threads go on.
#pragma once

#include <array>
#include <vector>

#include "backend/gpu/cuda/gpu.hpp"
#include "backend/gpu/cuda/runtime.hpp"
#include "backend/gpu/upload.hpp"

namespace lily::gpu::cuda {

class PinnedUpload final : public Upload {
 public:
  PinnedUpload(const Gpu& gpu, int threads);
  ~PinnedUpload() override;

  std::span<std::byte> staging(int thread, std::size_t bytes) override;
  void send(int thread, void* to) override;
  void finish() override;

 private:
  // One is filled while the other is copied.
  struct Slot {
    std::unique_ptr<std::byte, Destroy<cudaFreeHost>> memory;
    std::size_t capacity = 0, used = 0;
    Event copied;
  };
  struct Worker {
    std::array<Slot, 2> slots;
    std::size_t current = 0;
  };

  const Gpu& gpu_;
  Stream stream_;
  std::vector<Worker> workers_;
};

}  // namespace lily::gpu::cuda
