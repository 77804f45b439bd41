// Times kernels one by one.
#include "gpu/timed_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

namespace lily::gpu {
namespace {

template <class Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

constexpr double kRows = WeightBlock::rows, kBlockBytes = WeightBlock::bytes, kStateRow = DeltaStep::dim;

uint divide_up(uint n, uint by) { return (n + by - 1) / by; }

template <class Arguments>
Arguments arguments_of(const Dispatch& dispatch) {
  Arguments arguments;
  std::memcpy(&arguments, dispatch.arguments.data(), sizeof arguments);
  return arguments;
}

double matrix_bytes(double tiles, uint inputs, uint planes) {
  return tiles * divide_up(inputs, WeightBlock::inputs) * planes * kBlockBytes;
}

// Weights and states only: what is large in a decoded token.
double bytes_of(const Dispatch& dispatch) {
  const auto matrix = [](const auto& a) { return matrix_bytes(a.tiles, a.inputs, a.planes); };
  const auto head = [](const auto& a) {
    return matrix_bytes(divide_up(a.rows, WeightBlock::rows), a.inputs, a.planes);
  };
  switch (dispatch.kernel) {
    case KernelId::NormProject_id:
      return matrix(arguments_of<NormProject>(dispatch));
    case KernelId::AddProject_id:
      return matrix(arguments_of<AddProject>(dispatch));
    case KernelId::AddGatedProject_id:
      return matrix(arguments_of<AddGatedProject>(dispatch));
    case KernelId::HeadProject_id:
      return head(arguments_of<HeadProject>(dispatch));
    case KernelId::HeadBest_id:
      return head(arguments_of<HeadBest>(dispatch));
    case KernelId::RouterProject_id: {
      const auto a = arguments_of<RouterProject>(dispatch);
      return matrix_bytes(a.tiles, a.inputs, a.router_planes) +
             matrix_bytes(2.0 * (dispatch.grid.x - a.tiles), a.inputs, a.planes);
    }
    case KernelId::ExpertGateUp_id: {
      const auto a = arguments_of<ExpertGateUp>(dispatch);
      return matrix_bytes(2.0 * a.picks * a.expert_size / kRows, a.inputs, a.planes);
    }
    case KernelId::ExpertDown_id: {
      const auto a = arguments_of<ExpertDown>(dispatch);
      const double tiles = a.rows / kRows;
      return a.picks * matrix_bytes(tiles, a.expert_size, a.planes) +
             matrix_bytes(tiles, a.shared_size, a.planes);
    }
    case KernelId::DeltaStep_id: {
      const auto a = arguments_of<DeltaStep>(dispatch);
      return 2.0 * a.value_heads * kStateRow * kStateRow * sizeof(float);
    }
    default:
      return 0;
  }
}

void add(Profile& profile, const Dispatch& dispatch, double seconds) {
  KernelTime& time = profile[std::string(info(dispatch.kernel).name)];
  ++time.count;
  time.seconds += seconds;
  time.bytes += bytes_of(dispatch);
}

Plan repeated(const Dispatch& dispatch, int times) {
  Plan plan;
  for (int i = 0; i < times; ++i) plan.add(dispatch, std::span<const Region>(), std::span<const Region>());
  return plan;
}

}  // namespace

double TimedDevice::seconds_of_an_empty_wait() {
  if (empty_wait_ >= 0) return empty_wait_;
  const DeviceMemory memory = device().allocate(1024, "an empty dispatch");
  const Plan empty =
      repeated(make_dispatch(CountExperts{memory.as<uint>(), memory.as<atomic_uint>(), 0}, {1}), 1);
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    times.push_back(seconds_of([&] {
      device().run(empty);
      device().finish();
    }));
  }
  std::nth_element(times.begin(), times.begin() + 10, times.end());
  return empty_wait_ = times[10];
}

void TimedDevice::run(const Plan& plan) {
  if (repeats_ == 0) {
    device().run(plan);
    return;
  }
  const double wait = seconds_of_an_empty_wait();
  device().finish();
  for (const Dispatch& dispatch : plan.dispatches()) {
    const Plan single = repeated(dispatch, 1);
    const double time = seconds_of([&] {
      device().run(single);
      device().finish();
    });
    add(passes_, dispatch, std::max(0.0, time - wait));
  }
}

std::unique_ptr<PreparedPlan> TimedDevice::prepare(Plan plan) {
  auto prepared = device().prepare(plan);
  if (repeats_ == 0) return prepared;
  // Runs of `count` dispatches, so that neither a launch nor a wait counts.
  const auto time = [&](PreparedPlan& runs, int count) {
    runs.run();
    device().finish();
    return seconds_of([&] {
             for (int i = 0; i < repeats_; ++i) runs.run();
             device().finish();
           }) /
           (repeats_ * count);
  };
  step_seconds_ = time(*prepared, 1);
  step_.clear();
  // Dispatches of a kernel over all layers in one row, as in the step: weights do not stay in the cache.
  std::map<KernelId, std::vector<Dispatch>> kinds;
  for (const Dispatch& dispatch : plan.dispatches()) kinds[dispatch.kernel].push_back(dispatch);
  for (const auto& [kernel, dispatches] : kinds) {
    Plan row;
    for (const Dispatch& dispatch : dispatches)
      row.add(dispatch, std::span<const Region>(), std::span<const Region>());
    const double each = time(*device().prepare(std::move(row)), static_cast<int>(dispatches.size()));
    for (const Dispatch& dispatch : dispatches) add(step_, dispatch, each);
    Plan without;
    for (const Dispatch& dispatch : plan.dispatches()) {
      if (dispatch.kernel != kernel)
        without.add(dispatch, std::span<const Region>(), std::span<const Region>());
    }
    step_[std::string(info(kernel).name)].share =
        step_seconds_ - time(*device().prepare(std::move(without)), 1);
  }
  return prepared;
}

}  // namespace lily::gpu
