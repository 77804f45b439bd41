// Dependency levels of a plan.
#include "backend/gpu/plan.hpp"

#include <algorithm>
#include <cstdint>

namespace lily::gpu {
namespace {

bool overlap(const Region& a, const Region& b) {
  const auto begin = [](const Region& r) { return reinterpret_cast<std::uintptr_t>(r.begin); };
  return begin(a) < begin(b) + b.bytes && begin(b) < begin(a) + a.bytes;
}

}  // namespace

void Plan::add(const Dispatch& dispatch, std::span<const Region> reads, std::span<const Region> writes) {
  int level = 0;
  const auto wait_for = [&](std::span<const Region> regions, const std::vector<Access>& earlier) {
    for (const Region& region : regions) {
      for (const Access& access : earlier) {
        if (access.level >= level && overlap(region, access.region)) level = access.level + 1;
      }
    }
  };
  wait_for(reads, writes_);
  wait_for(writes, writes_);
  wait_for(writes, reads_);
  for (const Region& region : reads) reads_.push_back({region, level});
  for (const Region& region : writes) writes_.push_back({region, level});
  dispatches_.push_back(dispatch);
  levels_.push_back(level);
  level_count_ = std::max(level_count_, level + 1);
}

}  // namespace lily::gpu
