// A device that counts what is asked of it and passes it on, or, for long passes, leaves out the kernels.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "backend/gpu/device.hpp"

namespace lily::gpu {

struct DeviceBlock {
  void* address = nullptr;
  std::size_t bytes = 0;

  friend bool operator==(const DeviceBlock&, const DeviceBlock&) = default;
};

struct DeviceCalls {
  std::vector<DeviceBlock> blocks;  // of device memory, also those that are gone
  int allocations = 0, writes = 0, reads = 0, clears = 0;
  int runs = 0;      // of plans that run once
  int prepared = 0;  // plans
  int replays = 0;   // of prepared plans
  int marks = 0, waits = 0, finishes = 0;
  uint* shared = nullptr;  // the last memory that dispatches write for the host
  std::size_t shared_words = 0;
  bool no_tokens = false;  // from now on the device says there that a logit was not finite

  friend bool operator==(const DeviceCalls&, const DeviceCalls&) = default;
};

class WatchedDevice final : public Device {
 public:
  WatchedDevice(std::unique_ptr<Device> device, DeviceCalls& calls, bool runs = true)
      : device_(std::move(device)), calls_(calls), runs_(runs) {}

  std::string description() const override { return device_->description(); }
  uint multiprocessors() const override { return device_->multiprocessors(); }
  backend::MachineLimits measure_limits() override { return device_->measure_limits(); }
  std::uint64_t memory() const override { return device_->memory(); }

  DeviceMemory allocate(std::size_t bytes, const char* what) override {
    ++calls_.allocations;
    DeviceMemory memory = device_->allocate(bytes, what);
    calls_.blocks.push_back({memory.address(), bytes});
    return memory;
  }
  DeviceMemory allocate_shared(std::size_t bytes, const char* what) override {
    ++calls_.allocations;
    DeviceMemory memory = device_->allocate_shared(bytes, what);
    calls_.shared = memory.as<uint>();
    calls_.shared_words = bytes / sizeof(uint);
    return memory;
  }
  void write(void* to, std::span<const std::byte> from) override {
    ++calls_.writes;
    device_->write(to, from);
  }
  void read(const void* from, std::span<std::byte> to) override {
    ++calls_.reads;
    device_->read(from, to);
  }
  void clear(void* address, std::size_t bytes) override {
    ++calls_.clears;
    device_->clear(address, bytes);
  }
  void run(const Plan& plan) override {
    ++calls_.runs;
    if (runs_) device_->run(plan);
  }
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override {
    ++calls_.prepared;
    return std::make_unique<WatchedPlan>(device_->prepare(std::move(plan)), calls_);
  }
  Mark mark() override {
    ++calls_.marks;
    return device_->mark();
  }
  void wait(Mark mark) override {
    ++calls_.waits;
    device_->wait(mark);
    if (calls_.no_tokens) std::fill_n(calls_.shared, calls_.shared_words, uint{SampleShape::none});
  }
  void finish() override {
    ++calls_.finishes;
    device_->finish();
  }

 private:
  class WatchedPlan final : public PreparedPlan {
   public:
    WatchedPlan(std::unique_ptr<PreparedPlan> plan, DeviceCalls& calls)
        : plan_(std::move(plan)), calls_(calls) {}
    void run() override {
      ++calls_.replays;
      plan_->run();
    }

   private:
    std::unique_ptr<PreparedPlan> plan_;
    DeviceCalls& calls_;
  };

  std::unique_ptr<Device> device_;
  DeviceCalls& calls_;
  bool runs_;
};

}  // namespace lily::gpu
