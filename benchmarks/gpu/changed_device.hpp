// A device that runs plans without one of their techniques, to measure what it is worth. Results stay those
// of the plans as they were.
#pragma once

#include <memory>

#include "gpu/forwarding_device.hpp"

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

class ChangedDevice final : public ForwardingDevice {
 public:
  ChangedDevice(std::unique_ptr<Device> device, const Change& change)
      : ForwardingDevice(std::move(device)), change_(change) {}

  void run(const Plan& plan) override;
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override;

 private:
  void sort_on_the_host(const Dispatch& sort, const Dispatch& tiles);

  const Change& change_;
};

}  // namespace lily::gpu
