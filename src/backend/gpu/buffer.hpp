// Device memory by the element, and its sum before it is taken.
#pragma once

#include <cstdint>

#include "backend/gpu/device.hpp"

namespace lily::gpu {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(DeviceMemory memory) : memory_(std::move(memory)) {}

  T* at(std::size_t index) const { return memory_.as<T>(index); }
  T* data() const { return at(0); }
  std::size_t bytes() const { return memory_.bytes(); }

  // What a dispatch declares: a range of elements, the first `count` of them.
  Region range(std::size_t index, std::size_t count) const { return region(at(index), count); }
  Region first(std::size_t count) const { return range(0, count); }

 private:
  DeviceMemory memory_;
};

// Takes buffers from a device, or, without one, only counts what they would take.
class Allocator {
 public:
  explicit Allocator(Device* device) : device_(device) {}

  // Zeroed. Throws Error(out_of_memory) naming `what`.
  template <class T>
  Buffer<T> take(std::size_t count, const char* what) {
    const std::size_t bytes = count * sizeof(T);
    bytes_ += bytes;
    if (device_ == nullptr || bytes == 0) return {};
    return Buffer<T>(device_->allocate(bytes, what));
  }

  // The same in memory that the host reads as well; it is none of the device's and not counted.
  template <class T>
  Buffer<T> take_shared(std::size_t count, const char* what) {
    if (device_ == nullptr) return {};
    return Buffer<T>(device_->allocate_shared(count * sizeof(T), what));
  }

  std::uint64_t bytes() const { return bytes_; }

 private:
  Device* device_;
  std::uint64_t bytes_ = 0;
};

}  // namespace lily::gpu
