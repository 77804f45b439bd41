// The CUDA runtime's errors as lily::Error, and its handles as values.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string_view>
#include <type_traits>

namespace lily::gpu::cuda {

// Throws Error(device), or Error(out_of_memory) when the device has none left, naming `what` was being done.
void check(cudaError_t result, std::string_view what);

// Handles that free themselves; errors then have been seen elsewhere.
template <auto kDestroy>
struct Destroy {
  template <class Handle>
  void operator()(Handle handle) const {
    static_cast<void>(kDestroy(handle));
  }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, Destroy<cudaStreamDestroy>>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, Destroy<cudaEventDestroy>>;
using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, Destroy<cudaGraphDestroy>>;
using ExecutableGraph =
    std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, Destroy<cudaGraphExecDestroy>>;

Stream new_stream();
Event new_event(bool timed);

}  // namespace lily::gpu::cuda
