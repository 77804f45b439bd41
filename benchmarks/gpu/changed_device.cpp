// Plans without one of their techniques.
#include "gpu/changed_device.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace lily::gpu {
namespace {

template <class Arguments>
Arguments arguments_of(const Dispatch& dispatch) {
  Arguments arguments;
  std::memcpy(&arguments, dispatch.arguments.data(), sizeof arguments);
  return arguments;
}

// All dispatches one after the other: each level is a dispatch.
void append(Plan& plan, const Dispatch& dispatch) {
  static const uint anything = 0;
  const std::array<Region, 1> all{region(&anything, 1)};
  plan.add(dispatch, all, all);
}
template <class Arguments>
void append(Plan& plan, const Arguments& arguments, Grid grid) {
  append(plan, make_dispatch(arguments, grid));
}

DeltaScan scan_instead(const DeltaChunks& chunks, const DeltaChunkScan& scan) {
  return {chunks.q,    chunks.k, chunks.v,    chunks.beta,    chunks.log_decay, scan.step,
          scan.states, scan.y,   scan.tokens, scan.key_heads, scan.value_heads, scan.ring};
}

// A dispatch per query head, over the cache of its KV head alone.
void append_heads(Plan& plan, const AttentionDecode& a) {
  const std::size_t dim = AttentionDecode::dim;
  for (uint head = 0; head < a.heads; ++head) {
    AttentionDecode one = a;
    const std::size_t cache = std::size_t{head / (a.heads / a.kv_heads)} * a.capacity * dim;
    one.queries += head * dim;
    one.keys += cache;
    one.values += cache;
    one.partial += std::size_t{head} * a.splits * dim;
    one.maximum += std::size_t{head} * a.splits;
    one.sums += std::size_t{head} * a.splits;
    one.heads = one.kv_heads = 1;
    append(plan, one, {a.splits});
  }
}

uint few_splits(uint splits, uint capacity) {
  constexpr uint kPositions = 4096;
  return std::min(splits, (capacity + kPositions - 1) / kPositions);
}

class RunPlan final : public PreparedPlan {
 public:
  RunPlan(Device& device, Plan plan) : device_(device), plan_(std::move(plan)) {}
  void run() override { device_.run(plan_); }

 private:
  Device& device_;
  Plan plan_;
};

class WaitingPlan final : public PreparedPlan {
 public:
  WaitingPlan(Device& device, std::unique_ptr<PreparedPlan> plan) : device_(device), plan_(std::move(plan)) {}
  void run() override {
    plan_->run();
    device_.finish();
  }

 private:
  Device& device_;
  std::unique_ptr<PreparedPlan> plan_;
};

}  // namespace

void ChangedDevice::sort_on_the_host(const Dispatch& sort, const Dispatch& tiles) {
  const auto s = arguments_of<SortByExpert>(sort);
  const auto t = arguments_of<ExpertTiles>(tiles);
  constexpr uint kExperts = SortByExpert::max_experts, kNone = ~0U;
  std::vector<uint> expert(s.n), order(s.n), offset(kExperts + 1), tile_expert(t.max_tiles, kNone),
      tile_first(t.max_tiles, kNone);
  device().read(s.expert, std::as_writable_bytes(std::span(expert)));
  for (const uint e : expert) ++offset[e + 1];
  for (uint e = 0; e < kExperts; ++e) offset[e + 1] += offset[e];
  std::vector<uint> next(offset.begin(), offset.end() - 1);
  for (uint i = 0; i < s.n; ++i) order[next[expert[i]]++] = i;
  std::size_t tile = 0;
  for (uint e = 0; e < kExperts; ++e) {
    for (uint first = offset[e]; first < offset[e + 1]; first += Multiply::tokens, ++tile) {
      tile_expert[tile] = e;
      tile_first[tile] = first;
    }
  }
  device().write(s.order, std::as_bytes(std::span(order)));
  device().write(const_cast<uint*>(s.offset), std::as_bytes(std::span(offset)));
  device().write(t.tile_expert, std::as_bytes(std::span(tile_expert)));
  device().write(t.tile_first, std::as_bytes(std::span(tile_first)));
}

void ChangedDevice::run(const Plan& plan) {
  if (change_ != Change::host_routing && change_ != Change::serial_delta) {
    device().run(plan);
    return;
  }
  Plan part;
  Dispatch sort, chunks;
  for (const Dispatch& dispatch : plan.dispatches()) {
    if (change_ == Change::serial_delta && dispatch.kernel == KernelId::DeltaChunks_id) {
      chunks = dispatch;
    } else if (change_ == Change::serial_delta && dispatch.kernel == KernelId::DeltaChunkScan_id) {
      const DeltaScan scan =
          scan_instead(arguments_of<DeltaChunks>(chunks), arguments_of<DeltaChunkScan>(dispatch));
      append(part, scan, {DeltaScan::parts, scan.value_heads});
    } else if (change_ == Change::host_routing && (dispatch.kernel == KernelId::CountExperts_id ||
                                                   dispatch.kernel == KernelId::ExpertOffsets_id)) {
      continue;
    } else if (change_ == Change::host_routing && dispatch.kernel == KernelId::SortByExpert_id) {
      sort = dispatch;
    } else if (change_ == Change::host_routing && dispatch.kernel == KernelId::ExpertTiles_id) {
      device().run(part);
      part = {};
      sort_on_the_host(sort, dispatch);
    } else {
      append(part, dispatch);
    }
  }
  device().run(part);
}

std::unique_ptr<PreparedPlan> ChangedDevice::prepare(Plan plan) {
  if (change_ == Change::launches) return std::make_unique<RunPlan>(device(), std::move(plan));
  if (change_ == Change::no_run_ahead) {
    return std::make_unique<WaitingPlan>(device(), device().prepare(std::move(plan)));
  }
  if (change_ != Change::separate_heads && change_ != Change::few_splits) {
    return device().prepare(std::move(plan));
  }
  Plan changed;
  uint capacity = 0;
  for (const Dispatch& dispatch : plan.dispatches()) {
    if (dispatch.kernel == KernelId::AttentionDecode_id) {
      auto a = arguments_of<AttentionDecode>(dispatch);
      capacity = a.capacity;
      if (change_ == Change::separate_heads) {
        append_heads(changed, a);
      } else {
        a.splits = few_splits(a.splits, capacity);
        append(changed, a, {a.kv_heads * a.splits});
      }
    } else if (change_ == Change::few_splits && dispatch.kernel == KernelId::AttentionCombine_id) {
      auto a = arguments_of<AttentionCombine>(dispatch);
      a.splits = few_splits(a.splits, capacity);
      append(changed, a, dispatch.grid);
    } else {
      append(changed, dispatch);
    }
  }
  return device().prepare(std::move(changed));
}

}  // namespace lily::gpu
