// One machine that runs kernels: memory, copies, dispatches. Each driver implements this and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backend/backend.hpp"
#include "backend/gpu/plan.hpp"
#include "backend/gpu/upload.hpp"

namespace lily::gpu {

// Device memory. The address is the device's: only drivers and kernels look behind it.
class DeviceMemory {
 public:
  using Release = void (*)(void* address, std::size_t bytes);

  DeviceMemory() = default;
  DeviceMemory(void* address, std::size_t bytes, Release release)
      : address_(address), bytes_(bytes), release_(release) {}
  ~DeviceMemory() {
    if (address_ != nullptr) release_(address_, bytes_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept
      : address_(std::exchange(other.address_, nullptr)), bytes_(other.bytes_), release_(other.release_) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    std::swap(release_, other.release_);
    return *this;
  }

  std::size_t bytes() const noexcept { return bytes_; }
  void* address() const noexcept { return address_; }
  template <class T>
  T* as(std::size_t index = 0) const noexcept {
    return static_cast<T*>(address_) + index;
  }

 private:
  void* address_ = nullptr;
  std::size_t bytes_ = 0;
  Release release_ = nullptr;
};

// A plan that runs again and again, with what its device made of it in advance (CUDA: a graph). It belongs to
// that device and does not outlive it.
class PreparedPlan {
 public:
  PreparedPlan(const PreparedPlan&) = delete;
  PreparedPlan& operator=(const PreparedPlan&) = delete;
  virtual ~PreparedPlan() = default;

  // As Device::run.
  virtual void run() = 0;

 protected:
  PreparedPlan() = default;
};

// Used by one thread at a time. Failures of the machine are Error(device).
class Device {
 public:
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string description() const = 0;  // "emulator (2 threads)"
  // Threadgroups that run at once: kernels that split their work evenly make this many.
  virtual uint multiprocessors() const = 0;
  virtual backend::MachineLimits measure_limits() = 0;
  // Bytes that were free when it was opened.
  virtual std::uint64_t memory() const = 0;

  // Zeroed, aligned to 256 bytes. Throws Error(out_of_memory) naming `what` and the size.
  virtual DeviceMemory allocate(std::size_t bytes, const char* what) = 0;
  // The same, of the host's memory: what dispatches write there the host reads without a copy, once it has
  // waited for a mark after them. A few words.
  virtual DeviceMemory allocate_shared(std::size_t bytes, const char* what) = 0;
  // Copies that are done when they return and come after all earlier work.
  virtual void write(void* to, std::span<const std::byte> from) = 0;
  virtual void read(const void* from, std::span<std::byte> to) = 0;
  virtual void clear(void* address, std::size_t bytes) = 0;
  // Many writes at once, for weights.
  virtual std::unique_ptr<Upload> upload(int threads);

  // Each dispatch sees what those of lower levels wrote. May return before they are done.
  virtual void run(const Plan& plan) = 0;
  virtual std::unique_ptr<PreparedPlan> prepare(Plan plan) = 0;

  // A point after all work so far, and waiting for it while later work goes on. Only the last kMarks of them
  // are told apart: a wait for an older one may take longer. Faults of kernels appear there at the latest.
  static constexpr int kMarks = 8;
  using Mark = std::uint64_t;
  virtual Mark mark() = 0;
  virtual void wait(Mark mark) = 0;
  // Waits for all work.
  virtual void finish() = 0;

 protected:
  Device() = default;
};

}  // namespace lily::gpu
