// Filling device memory from several threads at once.
#pragma once

#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

namespace lily::gpu {

// Thread `thread` of those that it was made for asks for staging memory, fills it and sends it; the copy may
// go on while the thread fills its next piece.
class Upload {
 public:
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  virtual ~Upload() = default;

  // Throws Error(out_of_memory).
  virtual std::span<std::byte> staging(int thread, std::size_t bytes) = 0;
  // What staging() gave this thread last, into device memory. The staging is the device's from here on.
  virtual void send(int thread, void* to) = 0;
  // All threads are done: waits until everything has arrived.
  virtual void finish() = 0;

 protected:
  Upload() = default;
};

class Device;

// For devices without a faster way: one write after the other.
class SerialUpload final : public Upload {
 public:
  SerialUpload(Device& device, int threads) : device_(device), staging_(static_cast<std::size_t>(threads)) {}

  std::span<std::byte> staging(int thread, std::size_t bytes) override {
    std::vector<std::byte>& mine = staging_[static_cast<std::size_t>(thread)];
    mine.resize(bytes);
    return mine;
  }
  void send(int thread, void* to) override;
  void finish() override {}

 private:
  Device& device_;
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> staging_;
};

}  // namespace lily::gpu
