// Chooses a backend by name.
#include "backend/open_backend.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/gpu/cuda/cuda_device.hpp"
#include "backend/gpu/emulator/emulated_device.hpp"
#include "backend/gpu/gpu_backend.hpp"
#include "backend/reference/reference_backend.hpp"
#include "lily/error.hpp"

namespace lily::backend {
namespace {

// Known by name so that the refusal says what is missing rather than "unknown".
struct MissingBackend {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array kMissing{
    MissingBackend{"metal", "this build has no Metal driver"},
};

// The reference has one way to compute; an option it would ignore is refused.
void check_reference_options(const BackendOptions& options) {
  if (options.kv != KvFormat::f16) {
    throw Error(ErrorKind::unsupported,
                "the reference backend keeps its KV cache in fp32 and has no int8 cache: use backend cpu");
  }
  if (options.activations == Activations::fast) {
    throw Error(ErrorKind::unsupported,
                "the reference backend computes exactly and has no fast activations: use backend cpu");
  }
}

// So have the GPU kernels.
void check_gpu_options(const std::string& name, const BackendOptions& options) {
  if (options.activations == Activations::fast) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format("the {} backend computes exactly and has no fast activations: use backend cpu", name));
  }
}

[[noreturn]] void refuse(const std::string& name) {
  for (const MissingBackend& missing : kMissing) {
    if (name == missing.name) {
      throw Error(ErrorKind::unsupported,
                  fmt::format("backend {}: {}; use cpu, cuda, reference or emulator", name, missing.reason));
    }
  }
  throw Error(
      ErrorKind::bad_input,
      fmt::format("unknown backend '{}': the backends are auto, cpu, cuda, reference, emulator", name));
}

}  // namespace

Machine machine_of(const std::string& backend) {
  if (backend == "cuda") {
    const gpu::cuda::GpuMemory gpu = gpu::cuda::describe_gpu();
    return {.device = gpu.text, .memory = gpu.free, .multiprocessors = gpu.multiprocessors};
  }
  if (backend != "cpu" && backend != "reference" && backend != "emulator") refuse(backend);
  return {.device = {},
          .memory = machine_memory(),
          .multiprocessors = backend == "emulator" ? gpu::emulator::kMultiprocessors : 0};
}

std::unique_ptr<Backend> open_backend(const std::string& name,
                                      const std::shared_ptr<const checkpoint::Checkpoint>& checkpoint,
                                      const BackendOptions& options) {
  if (name == "cpu") {
    return cpu::open_cpu_backend(checkpoint, {.threads = options.threads,
                                              .activations = options.activations,
                                              .kv = options.kv,
                                              .instruction_set = {},
                                              .progress = options.progress});
  }
  if (name == "reference") {
    check_reference_options(options);
    return reference::open_reference_backend(checkpoint, options.threads);
  }
  if (name == "emulator" || name == "cuda") {
    check_gpu_options(name, options);
    const int threads = options.threads > 0 ? options.threads : available_cores();
    return gpu::open_gpu_backend(
        name == "cuda" ? gpu::cuda::open_device() : gpu::emulator::open_device(threads), checkpoint,
        options.kv, threads, options.progress);
  }
  refuse(name);
}

}  // namespace lily::backend
