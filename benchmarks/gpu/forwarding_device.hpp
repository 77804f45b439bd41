// A device that passes everything on to another one: what measuring devices override the rest of.
#pragma once

#include <memory>

#include "backend/gpu/device.hpp"

namespace lily::gpu {

class ForwardingDevice : public Device {
 public:
  explicit ForwardingDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

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
  void run(const Plan& plan) override { device_->run(plan); }
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override { return device_->prepare(std::move(plan)); }
  Mark mark() override { return device_->mark(); }
  void wait(Mark mark) override { device_->wait(mark); }
  void finish() override { device_->finish(); }

 protected:
  Device& device() const { return *device_; }

 private:
  std::unique_ptr<Device> device_;
};

}  // namespace lily::gpu
