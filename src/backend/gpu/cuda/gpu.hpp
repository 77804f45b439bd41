// The GPU that the cuda backend runs on.
#pragma once

#include <cstddef>
#include <string>

namespace lily::gpu::cuda {

struct Gpu {
  int index = 0;  // among those that the driver shows to this process
  std::string name;
  int capability = 0;  // compute capability: 90 for 9.0
  int multiprocessors = 0;
  std::size_t memory = 0;        // bytes, all of it
  std::size_t block_memory = 0;  // shared memory that one block may ask for

  std::string text() const;  // "GPU 0 (NVIDIA H200, compute capability 9.0, 139.8 GiB)"
};

// The first GPU with compute capability 8.0 or more. Throws Error(unsupported) that says what is missing: a
// driver, a new enough one, a GPU; or names the GPUs that are too old.
Gpu find_gpu();

// What the calling thread asks of the runtime is meant for this GPU.
void make_current(const Gpu& gpu);

}  // namespace lily::gpu::cuda
