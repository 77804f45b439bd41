// The emulator as a device.
#include "backend/gpu/emulator/emulated_device.hpp"

#include <fmt/format.h>

#include <new>

#include "backend/gpu/emulator/kernels.hpp"
#include "lily/error.hpp"

namespace lily::gpu::emulator {
namespace {

constexpr std::align_val_t kAlignment{256};

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(int threads, LaneOrder order) : pool_(threads), order_(order) {}

  std::string description() const override {
    return fmt::format("emulator ({} thread{})", pool_.size(), pool_.size() == 1 ? "" : "s");
  }

  // Blocks of the heap rather than one arena: the address sanitizer then sees every access out of bounds.
  DeviceMemory allocate(std::size_t bytes, const char* what) override {
    void* address = ::operator new(bytes, kAlignment, std::nothrow);
    if (address == nullptr) {
      throw Error(ErrorKind::out_of_memory,
                  fmt::format("{}: {} bytes of memory are not available", what, bytes));
    }
    std::memset(address, 0, bytes);
    return {address, bytes, [](void* block, std::size_t /*bytes*/) { ::operator delete(block, kAlignment); }};
  }

  void write(void* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  void read(const void* from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  void clear(void* address, std::size_t bytes) override { std::memset(address, 0, bytes); }

  void run(std::span<const Dispatch> dispatches) override {
    for (const Dispatch& dispatch : dispatches) {
      emulator::run(kernel(dispatch.kernel), dispatch.arguments.data(), dispatch.grid, order_,
                    pool_.size() > 1 ? &pool_ : nullptr);
    }
  }
  void finish() override {}

 private:
  ThreadPool pool_;
  LaneOrder order_;
};

}  // namespace

std::unique_ptr<Device> open_device(int threads, LaneOrder order) {
  return std::make_unique<EmulatedDevice>(threads, order);
}

}  // namespace lily::gpu::emulator
