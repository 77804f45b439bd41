// Measuring the limits.
#include "backend/cpu/limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/huge_buffer.hpp"

namespace lily::cpu {

namespace {

constexpr int kRepetitions = 5;
constexpr std::size_t kStreamBytes = std::size_t{2} << 30;
constexpr std::size_t kSmallest = std::size_t{256} << 20;  // beyond every cache
constexpr std::int64_t kPiece = 4 << 20;

template <class Work>
double seconds(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

backend::MachineLimits measure_limits(const Kernels& kernels, ThreadPool& pool,
                                      std::span<const std::byte> weights) {
  HugeBuffer own;
  if (weights.size() < kSmallest) {
    own = HugeBuffer(kSmallest, "measuring the memory's speed");
    std::memset(own.data(), 1, own.size());
    weights = {own.data(), own.size()};
  }
  const std::size_t bytes = std::min(weights.size(), kStreamBytes);
  std::atomic<std::uint64_t> sink{0};  // keeps the reads and the products alive
  std::vector<double> stream, integer;
  for (int i = 0; i < kRepetitions; ++i) {
    const double time = seconds([&] {
      pool.parallel_for(
          static_cast<std::int64_t>(bytes), kPiece, [&](std::int64_t begin, std::int64_t end, int) {
            sink += kernels.read_stream(weights.data() + begin, static_cast<std::size_t>(end - begin));
          });
    });
    stream.push_back(static_cast<double>(bytes) / time * 1e-9);

    const int threads = pool.size();
    std::vector<double> operations(static_cast<std::size_t>(threads));
    const double busy = seconds([&] {
      // One index per thread; a thread that takes two would only be measured as slower.
      pool.parallel_for(threads, 1, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t t = begin; t < end; ++t) {
          std::int32_t result = 0;
          operations[static_cast<std::size_t>(t)] = kernels.integer_peak(20'000'000, &result);
          sink += static_cast<std::uint64_t>(result);
        }
      });
    });
    double total = 0;
    for (const double count : operations) total += count;
    integer.push_back(total / busy * 1e-12);
  }
  return {*std::max_element(stream.begin(), stream.end()), *std::max_element(integer.begin(), integer.end())};
}

}  // namespace lily::cpu
