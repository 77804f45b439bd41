// A device that times the kernels of the plans given to it, one by one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "backend/gpu/device.hpp"

namespace lily::gpu {

// Dispatches of one kernel.
struct KernelTime {
  int count = 0;
  double seconds = 0;  // of all of them
  double share = 0;    // seconds by which a step is shorter without them
  double bytes = 0;    // of weights and DeltaNet states that they read or write
};
using Profile = std::map<std::string, KernelTime>;

class TimedDevice final : public Device {
 public:
  // Each dispatch is repeated `repeats` times; 0: nothing is timed.
  TimedDevice(std::unique_ptr<Device> device, const int& repeats)
      : device_(std::move(device)), repeats_(repeats) {}

  std::string description() const override { return device_->description(); }
  uint multiprocessors() const override { return device_->multiprocessors(); }
  backend::MachineLimits measure_limits() override { return device_->measure_limits(); }
  std::uint64_t memory() const override { return device_->memory(); }
  DeviceMemory allocate(std::size_t bytes, const char* what) override {
    return device_->allocate(bytes, what);
  }
  DeviceMemory allocate_shared(std::size_t bytes, const char* what) override {
    return device_->allocate_shared(bytes, what);
  }
  void write(void* to, std::span<const std::byte> from) override { device_->write(to, from); }
  void read(const void* from, std::span<std::byte> to) override { device_->read(from, to); }
  void clear(void* address, std::size_t bytes) override { device_->clear(address, bytes); }
  std::unique_ptr<Upload> upload(int threads) override { return device_->upload(threads); }
  // Times each dispatch as it comes, once: a host's wait around each is subtracted.
  void run(const Plan& plan) override;
  // Times the plan itself, then each dispatch in a row of its own kind. State is nonsense afterwards.
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override;
  Mark mark() override { return device_->mark(); }
  void wait(Mark mark) override { device_->wait(mark); }
  void finish() override { device_->finish(); }

  const Profile& passes() const { return passes_; }  // of run()
  const Profile& step() const { return step_; }      // of the last prepare()
  double step_seconds() const { return step_seconds_; }

 private:
  double seconds_of_an_empty_wait();

  std::unique_ptr<Device> device_;
  const int& repeats_;
  Profile passes_, step_;
  double step_seconds_ = 0, empty_wait_ = -1;
};

}  // namespace lily::gpu
