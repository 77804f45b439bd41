// The driver for NVIDIA GPUs: memory, copies, launches and graphs on one stream.
#include "backend/gpu/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <exception>

#include "backend/gpu/cuda/copy_speed.hpp"
#include "backend/gpu/cuda/gpu.hpp"
#include "backend/gpu/cuda/launcher.hpp"
#include "backend/gpu/cuda/pinned_upload.hpp"
#include "backend/gpu/cuda/runtime.hpp"
#include "lily/error.hpp"

namespace lily::gpu::cuda {
namespace {

double gib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "reading the free memory");
  return free;
}

// A plan captured into a graph: one launch for all its kernels.
class GraphPlan final : public PreparedPlan {
 public:
  GraphPlan(const Gpu& gpu, const Launcher& launcher, const Plan& plan, cudaStream_t stream)
      : gpu_(gpu), stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording a plan");
    // The capture ends in any case: a stream that still captures can do nothing else.
    std::exception_ptr failure;
    try {
      launcher.launch(plan, stream);
    } catch (...) {
      failure = std::current_exception();
    }
    cudaGraph_t recorded = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream, &recorded);
    const Graph graph(recorded);
    if (failure) std::rethrow_exception(failure);
    check(ended, "recording a plan");
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph.get(), 0), "preparing a plan");
    graph_.reset(executable);
    check(cudaGraphUpload(executable, stream), "preparing a plan");
  }

  void run() override {
    make_current(gpu_);
    check(cudaGraphLaunch(graph_.get(), stream_), "running a plan");
  }

 private:
  const Gpu& gpu_;
  cudaStream_t stream_;
  ExecutableGraph graph_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(Bodies bodies)
      : gpu_(current_gpu()), stream_(new_stream()), launcher_(gpu_, bodies), memory_(free_memory()) {
    for (Event& event : marks_) event = new_event(false);
  }

  std::string description() const override {
    return fmt::format("cuda ({}, {} multiprocessors)", gpu_.name, gpu_.multiprocessors);
  }
  uint multiprocessors() const override { return static_cast<uint>(gpu_.multiprocessors); }
  std::uint64_t memory() const override { return memory_; }
  backend::MachineLimits measure_limits() override {
    make_current(gpu_);
    return {.stream_gb_per_s = copy_speed(stream_.get()), .int8_tera_ops = 0};
  }

  DeviceMemory allocate(std::size_t bytes, const char* what) override;
  DeviceMemory allocate_shared(std::size_t bytes, const char* what) override;

  void write(void* to, std::span<const std::byte> from) override {
    copy(to, from.data(), from.size(), cudaMemcpyHostToDevice);
  }
  void read(const void* from, std::span<std::byte> to) override {
    copy(to.data(), from, to.size(), cudaMemcpyDeviceToHost);
  }
  void clear(void* address, std::size_t bytes) override {
    make_current(gpu_);
    check(cudaMemsetAsync(address, 0, bytes, stream_.get()), "clearing memory");
  }
  std::unique_ptr<Upload> upload(int threads) override {
    finish();  // what is uploaded comes after all earlier work
    return std::make_unique<PinnedUpload>(gpu_, threads);
  }

  void run(const Plan& plan) override {
    make_current(gpu_);
    launcher_.launch(plan, stream_.get());
  }
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override {
    make_current(gpu_);
    return std::make_unique<GraphPlan>(gpu_, launcher_, plan, stream_.get());
  }

  Mark mark() override {
    make_current(gpu_);
    check(cudaEventRecord(marks_[next_mark_ % kMarks].get(), stream_.get()), "marking a point of the work");
    return next_mark_++;
  }
  void wait(Mark mark) override {
    make_current(gpu_);
    check(cudaEventSynchronize(marks_[mark % kMarks].get()), "running kernels");
  }
  void finish() override {
    make_current(gpu_);
    check(cudaStreamSynchronize(stream_.get()), "running kernels");
  }

 private:
  static Gpu current_gpu() {
    Gpu gpu = find_gpu();
    make_current(gpu);
    return gpu;
  }

  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    if (bytes == 0) return;
    make_current(gpu_);
    check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "copying");
    check(cudaStreamSynchronize(stream_.get()), "running kernels");
  }

  Gpu gpu_;
  Stream stream_;
  Launcher launcher_;
  std::uint64_t memory_;
  std::array<Event, kMarks> marks_;
  Mark next_mark_ = 0;
};

DeviceMemory CudaDevice::allocate(std::size_t bytes, const char* what) {
  make_current(gpu_);
  void* address = nullptr;
  const cudaError_t result = cudaMalloc(&address, bytes);
  if (result == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw Error(ErrorKind::out_of_memory, fmt::format("{}: {:.2f} GiB are needed, {} has {:.2f} GiB free",
                                                      what, gib(bytes), gpu_.text(), gib(free_memory())));
  }
  check(result, fmt::format("allocating {} bytes for {}", bytes, what));
  DeviceMemory memory{address, bytes, [](void* block, std::size_t /*bytes*/) {
                        static_cast<void>(cudaFree(block));  // errors were seen where they arose
                      }};
  clear(address, bytes);
  return memory;
}

DeviceMemory CudaDevice::allocate_shared(std::size_t bytes, const char* what) {
  make_current(gpu_);
  void* address = nullptr;
  check(cudaHostAlloc(&address, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
        fmt::format("allocating {} bytes of the host's memory for {}", bytes, what));
  std::memset(address, 0, bytes);
  return {address, bytes, [](void* block, std::size_t /*bytes*/) { static_cast<void>(cudaFreeHost(block)); }};
}

}  // namespace

GpuMemory describe_gpu() {
  const Gpu gpu = find_gpu();
  make_current(gpu);
  return {gpu.text(), free_memory(), static_cast<uint>(gpu.multiprocessors)};
}

std::unique_ptr<Device> open_device(Bodies bodies) { return std::make_unique<CudaDevice>(bodies); }

}  // namespace lily::gpu::cuda
