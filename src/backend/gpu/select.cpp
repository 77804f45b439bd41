// Which kernel, and how many threadgroups, for which shape.
#include "backend/gpu/select.hpp"

#include <algorithm>

#include "backend/gpu/kernels/args.h"

namespace lily::gpu {
namespace {

constexpr uint divide_up(uint n, uint by) { return (n + by - 1) / by; }

uint tiles_per_group(uint parts, uint max_tiles, uint tile_blocks) {
  return std::max(1U, std::min(max_tiles, tile_blocks / parts));
}

}  // namespace

uint prefetch_groups(uint tiles, uint parts, uint max_tiles, uint tile_blocks, uint multiprocessors) {
  const uint needed = divide_up(tiles, tiles_per_group(parts, max_tiles, tile_blocks));
  return std::max(needed, std::min(tiles, multiprocessors));
}

uint head_groups(uint tiles, uint multiprocessors) {
  constexpr uint kSimdgroups = HeadProject::threads / 32;
  return std::min(2 * multiprocessors, divide_up(tiles, kSimdgroups));
}

uint expert_pairs(uint parts) {
  const uint pairs = ExpertGateUp::tile_blocks / (2 * parts);
  return std::clamp(pairs, 1U, static_cast<uint>(ExpertGateUp::max_pairs));
}

uint attention_splits(uint capacity, uint kv_heads, uint rows, uint multiprocessors) {
  // A split is a simdgroup, and eight of them fill a multiprocessor. No split is shorter than two chunks.
  constexpr uint kSimdgroups = 8;
  const uint most = divide_up(capacity, 2 * AttentionSplit::chunk);
  return std::clamp(kSimdgroups * multiprocessors / (kv_heads * rows), 1U, std::max(most, 1U));
}

}  // namespace lily::gpu
