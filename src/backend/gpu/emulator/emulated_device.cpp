// The emulator as a device.
#include "backend/gpu/emulator/emulated_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <numeric>
#include <random>
#include <vector>

#include "backend/gpu/emulator/kernels.hpp"
#include "base/machine_memory.hpp"
#include "lily/error.hpp"

namespace lily::gpu::emulator {
namespace {

constexpr std::align_val_t kAlignment{256};

// How fast all threads read memory that no cache holds: the limit that a decode step could reach here. There
// is no matrix unit, so that limit stays 0.
double read_memory(ThreadPool& pool) {
  constexpr std::int64_t kValues = std::int64_t{32} << 20;  // 256 MiB
  constexpr int kRepeats = 3;
  const std::vector<std::uint64_t> memory(static_cast<std::size_t>(kValues), 1);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.size()) * 8);  // a cache line per thread
  double best = 0;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(kValues, kValues / (4 * pool.size()),
                      [&](std::int64_t begin, std::int64_t end, int thread) {
                        sums[static_cast<std::size_t>(thread) * 8] +=
                            std::accumulate(memory.begin() + begin, memory.begin() + end, std::uint64_t{0});
                      });
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(kValues) * sizeof(std::uint64_t) / elapsed.count() / 1e9);
  }
  return sums[0] > 0 ? best : 0;  // the sums are read, so that the loop is not left out
}

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

  DeviceMemory allocate_shared(std::size_t bytes, const char* what) override { return allocate(bytes, what); }

  void write(void* to, std::span<const std::byte> from) override {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  void read(const void* from, std::span<std::byte> to) override {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  void clear(void* address, std::size_t bytes) override { std::memset(address, 0, bytes); }

  uint multiprocessors() const override { return kMultiprocessors; }
  backend::MachineLimits measure_limits() override {
    return {.stream_gb_per_s = read_memory(pool_), .int8_tera_ops = 0};
  }

  std::uint64_t memory() const override { return machine_memory(); }

  void run(const Plan& plan) override {
    for (const std::size_t i : order_of(plan)) {
      const Dispatch& dispatch = plan.dispatches()[i];
      Kernel prefetching = kernel(dispatch.kernel);
      prefetching.tile_blocks = dispatch.tile_blocks;
      emulator::run(prefetching, dispatch.arguments.data(), dispatch.grid, order_,
                    pool_.size() > 1 ? &pool_ : nullptr);
    }
  }
  std::unique_ptr<PreparedPlan> prepare(Plan plan) override {
    return std::make_unique<EmulatedPlan>(*this, std::move(plan));
  }
  // Everything has run by then.
  Mark mark() override { return 0; }
  void wait(Mark /*mark*/) override {}
  void finish() override {}

 private:
  class EmulatedPlan final : public PreparedPlan {
   public:
    EmulatedPlan(EmulatedDevice& device, Plan plan) : device_(device), plan_(std::move(plan)) {}
    void run() override { device_.run(plan_); }

   private:
    EmulatedDevice& device_;
    Plan plan_;
  };

  // As recorded; or level after level, each from its end or in random order.
  std::vector<std::size_t> order_of(const Plan& plan) {
    std::vector<std::size_t> order(plan.dispatches().size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (order_ == LaneOrder::forward) return order;
    if (order_ == LaneOrder::backward) std::reverse(order.begin(), order.end());
    if (order_ == LaneOrder::shuffled) std::shuffle(order.begin(), order.end(), random_);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return plan.levels()[a] < plan.levels()[b]; });
    return order;
  }

  ThreadPool pool_;
  LaneOrder order_;
  std::mt19937 random_{20261129};
};

}  // namespace

std::unique_ptr<Device> open_device(int threads, LaneOrder order) {
  return std::make_unique<EmulatedDevice>(threads, order);
}

}  // namespace lily::gpu::emulator
