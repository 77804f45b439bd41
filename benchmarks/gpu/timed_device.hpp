// A device that times the kernels of the plans given to it, one by one.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "gpu/forwarding_device.hpp"

namespace lily::gpu {

// Dispatches of one kernel.
struct KernelTime {
  int count = 0;
  double seconds = 0;  // of all of them
  double share = 0;    // seconds by which a step is shorter without them
  double bytes = 0;    // of weights and DeltaNet states that they read or write
};
using Profile = std::map<std::string, KernelTime>;

class TimedDevice final : public ForwardingDevice {
 public:
  // Each dispatch is repeated `repeats` times; 0: nothing is timed.
  TimedDevice(std::unique_ptr<Device> device, const int& repeats)
      : ForwardingDevice(std::move(device)), repeats_(repeats) {}

  // Times each dispatch as it comes, once: a host's wait around each is subtracted.
  void run(const Plan& plan) override;
  // Times the plan itself, then each dispatch in a row of its own kind. State is nonsense afterwards.
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override;

  const Profile& passes() const { return passes_; }  // of run()
  const Profile& step() const { return step_; }      // of the last prepare()
  double step_seconds() const { return step_seconds_; }

 private:
  double seconds_of_an_empty_wait();

  const int& repeats_;
  Profile passes_, step_;
  double step_seconds_ = 0, empty_wait_ = -1;
};

}  // namespace lily::gpu
