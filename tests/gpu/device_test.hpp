// Runs a test once per device and lane order, with deterministic random inputs and buffers on the device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "backend/gpu/cuda/cuda_device.hpp"
#include "backend/gpu/device.hpp"
#include "backend/gpu/emulator/emulated_device.hpp"
#include "lily/error.hpp"

namespace lily::gpu {

struct DeviceCase {
  std::string name;
  std::function<std::unique_ptr<Device>()> open;
};

// The emulator in its three orders, and a GPU with and without the bodies that its kind alone has; tests are
// skipped where there is none.
inline std::vector<DeviceCase> all_devices() {
  using emulator::LaneOrder;
  return {{"emulator_forward", [] { return emulator::open_device(1, LaneOrder::forward); }},
          {"emulator_backward", [] { return emulator::open_device(1, LaneOrder::backward); }},
          {"emulator_shuffled", [] { return emulator::open_device(2, LaneOrder::shuffled); }},
          {"cuda", [] { return cuda::open_device(); }},
          {"cuda_dialect", [] { return cuda::open_device(cuda::Bodies::dialect); }}};
}

class DeviceTest : public ::testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override {
    try {
      device_ = GetParam().open();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }

  Device& device() { return *device_; }

  // Device copies of `values`, freed at the end of the test.
  template <class T>
  T* upload(const std::vector<T>& values) {
    T* address = room<T>(values.size());
    device_->write(address, std::as_bytes(std::span(values)));
    return address;
  }
  // Room for `count` values, filled with NaN bits so that what a kernel leaves out shows.
  template <class T>
  T* room(std::size_t count) {
    memory_.push_back(device_->allocate(std::max<std::size_t>(count * sizeof(T), 1), "test"));
    const std::vector<std::byte> pattern(count * sizeof(T), std::byte{0xff});
    device_->write(memory_.back().address(), pattern);
    return memory_.back().as<T>();
  }
  template <class T>
  T* zeros(std::size_t count) {
    memory_.push_back(device_->allocate(std::max<std::size_t>(count * sizeof(T), 1), "test"));
    return memory_.back().as<T>();
  }
  template <class T>
  std::vector<std::remove_const_t<T>> download(T* address, std::size_t count) {
    std::vector<std::remove_const_t<T>> values(count);
    device_->finish();
    device_->read(address, std::as_writable_bytes(std::span(values)));
    return values;
  }
  template <class Arguments>
  void run(const Arguments& arguments, Grid grid) {
    Plan plan;
    plan.add(arguments, grid, {}, {});
    device_->run(plan);
  }

  float uniform(float low, float high) { return std::uniform_real_distribution<float>(low, high)(random_); }
  std::vector<float> uniforms(std::size_t count, float low, float high) {
    std::vector<float> values(count);
    for (float& value : values) value = uniform(low, high);
    return values;
  }
  uint random_bits() { return static_cast<uint>(random_()); }

 private:
  std::unique_ptr<Device> device_;
  std::vector<DeviceMemory> memory_;
  std::mt19937 random_{20261129};
};

inline void PrintTo(const DeviceCase& device, std::ostream* out) { *out << device.name; }

inline std::string device_name(const ::testing::TestParamInfo<DeviceCase>& info) { return info.param.name; }

constexpr uint divide_up(std::size_t n, std::size_t by) { return static_cast<uint>((n + by - 1) / by); }

}  // namespace lily::gpu

// Every suite over DeviceTest is instantiated for all devices.
#define LILY_FOR_ALL_DEVICES(Suite) \
  INSTANTIATE_TEST_SUITE_P(, Suite, ::testing::ValuesIn(lily::gpu::all_devices()), lily::gpu::device_name)
