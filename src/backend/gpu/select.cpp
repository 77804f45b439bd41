// Which kernel, and how many threadgroups, for which shape.
#include "backend/gpu/select.hpp"

#include <algorithm>

#include "backend/gpu/kernels/args.h"

namespace lily::gpu {
namespace {

constexpr uint kLargeDevice = 64;  // multiprocessors

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
  return std::min(3 * multiprocessors, divide_up(tiles, kSimdgroups));
}

uint sample_slices(uint rows, uint multiprocessors) {
  const uint most = std::min<uint>(multiprocessors, SampleShape::max_slices);
  return std::min(most, divide_up(rows, SampleAdjust::threads));
}

uint expert_pairs(uint parts) {
  const uint pairs = ExpertGateUp::tile_blocks / (2 * parts);
  return std::clamp(pairs, 1U, static_cast<uint>(ExpertGateUp::max_pairs));
}

uint attention_splits(uint capacity, uint kv_heads, uint multiprocessors) {
  // One threadgroup on each multiprocessor of a large device, which keeps memory busy with that and has fewer
  // parts to add up; two on a small one. No split is shorter than two chunks.
  const uint most = divide_up(capacity, 2 * AttentionDecode::chunk);
  const uint groups = multiprocessors >= kLargeDevice ? multiprocessors : 2 * multiprocessors;
  return std::clamp(groups / kv_heads, 1U, std::max(most, 1U));
}

uint cache_groups(uint kv_heads, uint multiprocessors) {
  return std::max(8 * multiprocessors / kv_heads, 1U);
}

Product product_for(uint rows) { return rows <= SmallProject::max_tokens ? Product::small : Product::tiles; }

DeltaRule delta_rule_for(uint rows) {
  return rows < DeltaChunks::chunk ? DeltaRule::scan : DeltaRule::chunks;
}

Attention attention_for(uint rows) { return rows <= kFewTokens ? Attention::splits : Attention::tiles; }

Experts experts_for(uint rows, uint planes) {
  return rows > kFewTokens && planes == 1 ? Experts::sorted : Experts::by_token;
}

uint prefill_rows(uint multiprocessors) { return multiprocessors >= kLargeDevice ? 4096 : 512; }

uint expert_tiles(uint assignments) { return ExpertTiles::max_experts + assignments / Multiply::tokens; }

}  // namespace lily::gpu
