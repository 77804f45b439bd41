// A device that runs plans without one of their techniques, to measure what it is worth. Results stay those
// of the plans as they were.
#pragma once

#include <memory>

#include "backend/gpu/device.hpp"

namespace lily::gpu {

enum class Change {
  none,
  host_routing,    // prompts: the host sorts tokens by expert, between two copies
  serial_delta,    // prompts: the delta rule token after token, the state in registers
  separate_heads,  // steps: every query head reads its keys and values for itself
  few_splits,  // steps: attention in a split per 4,096 positions of the capacity, however many fit the device
  launches,    // steps: a launch per kernel
  no_run_ahead,  // steps: the host waits for each
};

class ChangedDevice final : public Device {
 public:
  ChangedDevice(std::unique_ptr<Device> device, const Change& change)
      : device_(std::move(device)), change_(change) {}

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
  void run(const Plan& plan) override;
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override;
  Mark mark() override { return device_->mark(); }
  void wait(Mark mark) override { device_->wait(mark); }
  void finish() override { device_->finish(); }

 private:
  void sort_on_the_host(const Dispatch& sort, const Dispatch& tiles);

  std::unique_ptr<Device> device_;
  const Change& change_;
};

}  // namespace lily::gpu
