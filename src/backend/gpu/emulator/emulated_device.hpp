// The emulator as a device: host memory, dispatches run at once.
#pragma once

#include <memory>

#include "backend/gpu/device.hpp"
#include "backend/gpu/emulator/emulator.hpp"

namespace lily::gpu::emulator {

// Few, so that small models fill them; enough that every kernel is split.
constexpr uint kMultiprocessors = 4;

// `threads` run the threadgroups of one dispatch.
std::unique_ptr<Device> open_device(int threads, LaneOrder order = LaneOrder::forward);

}  // namespace lily::gpu::emulator
