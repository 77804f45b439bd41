// Registration, the timed loop and the machine's limits.
#include "harness.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "backend/cpu/limits.hpp"
#include "backend/cpu/select.hpp"
#include "working_set.hpp"

namespace lily::benchmarks {

namespace {

constexpr int kRepetitions = 5;
constexpr std::size_t kCachedBytes = std::size_t{32} << 10;
constexpr int kCachedPasses = 4096;
constexpr std::int64_t kFloatRounds = 5'000'000;

double seconds(const Call& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

ThreadPool& pool_of(int threads) {
  static std::map<int, std::unique_ptr<ThreadPool>> pools;
  std::unique_ptr<ThreadPool>& pool = pools[threads];
  if (pool == nullptr) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

// The most that all threads together did per second, in 10^9, when each did `work` once.
double best_rate(ThreadPool& pool, const std::function<double(int index)>& work) {
  std::vector<double> done(static_cast<std::size_t>(pool.size()));
  double best = 0;
  for (int i = 0; i < kRepetitions; ++i) {
    const double time = seconds([&] {
      pool.parallel_for(pool.size(), 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
        for (std::int64_t t = begin; t < end; ++t) {
          done[static_cast<std::size_t>(t)] = work(static_cast<int>(t));
        }
      });
    });
    double total = 0;
    for (const double amount : done) total += amount;
    best = std::max(best, total / time * 1e-9);
  }
  return best;
}

std::map<Limit, double> measure(const Machine& machine) {
  const WorkingSet& memory = working_set();
  const backend::MachineLimits main =
      cpu::measure_limits(machine.kernels, machine.pool, {memory.data(), memory.size()});
  std::atomic<std::uint64_t> sink{0};  // keeps the work alive
  const double cache = best_rate(machine.pool, [&](int index) {
    const std::byte* data = memory.data() + static_cast<std::size_t>(index) * kCachedBytes;
    for (int i = 0; i < kCachedPasses; ++i) sink += machine.kernels.read_stream(data, kCachedBytes);
    return static_cast<double>(kCachedBytes) * kCachedPasses;
  });
  const double fp32 = best_rate(machine.pool, [&](int /*index*/) {
    float result = 0;
    const double operations = machine.kernels.float_peak(kFloatRounds, &result);
    if (result == 0) ++sink;
    return operations;
  });
  return {{Limit::memory, main.stream_gb_per_s},
          {Limit::cache, cache},
          {Limit::integer, main.int8_tera_ops * 1000},
          {Limit::fp32, fp32}};
}

double limit_of(const Machine& machine, Limit limit) {
  static std::map<std::pair<const cpu::Kernels*, int>, std::map<Limit, double>> measured;
  std::map<Limit, double>& limits = measured[{&machine.kernels, machine.pool.size()}];
  if (limits.empty()) limits = measure(machine);
  return limits.at(limit);
}

const char* name_of(Limit limit) {
  switch (limit) {
    case Limit::memory:
      return "of reading memory";
    case Limit::cache:
      return "of reading the cache";
    case Limit::integer:
      return "of integer dot products";
    case Limit::fp32:
      break;
  }
  return "of fp32 multiply-adds";
}

}  // namespace

void add(const std::string& name, Limit limit, const std::function<double(int threads)>& amount,
         const Prepare& prepare) {
  for (const cpu::Kernels* kernels : cpu::available_kernels()) {
    for (const int threads : std::set<int>{1, available_cores()}) {
      const std::string full = name + "/" + kernels->name + "/threads:" + std::to_string(threads);
      const auto run = [kernels, threads, limit, amount, prepare](::benchmark::State& state) {
        const Machine machine{*kernels, pool_of(threads)};
        const double bound = limit_of(machine, limit);
        const Call call = prepare(machine);
        if (!call) {
          state.SkipWithError("this instruction set has no such kernel");
          return;
        }
        call();  // touches everything once
        double total = 0;
        for ([[maybe_unused]] auto _ : state) {
          const double time = seconds(call);
          state.SetIterationTime(time);
          total += time;
        }
        const double rate = amount(threads) * static_cast<double>(state.iterations()) / total * 1e-9;
        const bool bytes = limit == Limit::memory || limit == Limit::cache;
        state.counters[bytes ? "GB/s" : "GOP/s"] = rate;
        state.counters["limit"] = bound;
        state.counters["share"] = rate / bound;
        state.SetLabel(name_of(limit));
      };
      ::benchmark::RegisterBenchmark(full.c_str(), run)->UseManualTime()->Unit(::benchmark::kMicrosecond);
    }
  }
}

void add(const std::string& name, Limit limit, double amount, const Prepare& prepare) {
  add(
      name, limit, [amount](int /*threads*/) { return amount; }, prepare);
}

}  // namespace lily::benchmarks
