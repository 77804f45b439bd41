// Errors and handles of the CUDA runtime.
#include "backend/gpu/cuda/runtime.hpp"

#include <fmt/format.h>

#include "lily/error.hpp"

namespace lily::gpu::cuda {

void check(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // the runtime keeps it for the next call otherwise
  const ErrorKind kind = result == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::device;
  throw Error(kind,
              fmt::format("CUDA, {}: {} ({})", what, cudaGetErrorString(result), cudaGetErrorName(result)));
}

Stream new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  return Stream(stream);
}

Event new_event(bool timed) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
        "creating an event");
  return Event(event);
}

}  // namespace lily::gpu::cuda
