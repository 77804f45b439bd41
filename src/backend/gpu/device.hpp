// One machine that runs kernels: memory, copies, dispatches. Each driver implements this and nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "backend/gpu/kernels/kernels.hpp"

namespace lily::gpu {

// Threadgroups of a dispatch.
struct Grid {
  uint x = 1, y = 1, z = 1;
};

constexpr std::size_t kMaxArgumentBytes = 256;

// A kernel, its arguments and its grid.
struct Dispatch {
  KernelId kernel{};
  Grid grid;
  alignas(8) std::array<std::byte, kMaxArgumentBytes> arguments{};
};

template <class Arguments>
Dispatch make_dispatch(const Arguments& arguments, Grid grid) {
  static_assert(sizeof(Arguments) <= kMaxArgumentBytes);
  Dispatch dispatch{KernelOf<Arguments>::kId, grid, {}};
  std::memcpy(dispatch.arguments.data(), &arguments, sizeof arguments);
  return dispatch;
}

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

// Used by one thread at a time. Failures of the machine are Error(device).
class Device {
 public:
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string description() const = 0;  // "emulator (2 threads)"

  // Zeroed, aligned to 256 bytes. Throws Error(out_of_memory) naming `what` and the size.
  virtual DeviceMemory allocate(std::size_t bytes, const char* what) = 0;
  // Copies that are done when they return and come after all earlier work.
  virtual void write(void* to, std::span<const std::byte> from) = 0;
  virtual void read(const void* from, std::span<std::byte> to) = 0;
  virtual void clear(void* address, std::size_t bytes) = 0;

  // Dispatches in order; each sees what the ones before it wrote. May return before they are done.
  virtual void run(std::span<const Dispatch> dispatches) = 0;
  // Waits for all work; faults of kernels appear here at the latest.
  virtual void finish() = 0;

 protected:
  Device() = default;
};

}  // namespace lily::gpu
