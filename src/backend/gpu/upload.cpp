// Filling device memory by plain writes.
#include "backend/gpu/upload.hpp"

#include "backend/gpu/device.hpp"

namespace lily::gpu {

void SerialUpload::send(int thread, void* to) {
  const std::lock_guard lock(mutex_);
  device_.write(to, staging_[static_cast<std::size_t>(thread)]);
}

std::unique_ptr<Upload> Device::upload(int threads) { return std::make_unique<SerialUpload>(*this, threads); }

}  // namespace lily::gpu
