// The selection: both sides of every boundary, and what a threadgroup may hold is never exceeded.
#include "backend/gpu/select.hpp"

#include <gtest/gtest.h>

#include "backend/gpu/kernels/args.h"

namespace lily::gpu {
namespace {

// Tiles of the fullest threadgroup, as the kernels split them.
uint fullest(uint tiles, uint groups) {
  uint most = 0;
  for (uint g = 0; g < groups; ++g) {
    most = std::max(most, tiles / groups + (g < tiles % groups ? 1 : 0));
  }
  return most;
}

TEST(Select, PrefetchGroupsFillTheDeviceAndKeepWithinTileMemory) {
  constexpr uint kTiles = NormProject::max_tiles, kBlocks = NormProject::tile_blocks;
  // As many threadgroups as tiles, up to the device's number; then more tiles each; then more threadgroups.
  EXPECT_EQ(prefetch_groups(1, 8, kTiles, kBlocks, 132), 1U);
  EXPECT_EQ(prefetch_groups(131, 8, kTiles, kBlocks, 132), 131U);
  EXPECT_EQ(prefetch_groups(132, 8, kTiles, kBlocks, 132), 132U);
  EXPECT_EQ(prefetch_groups(133, 8, kTiles, kBlocks, 132), 132U);
  EXPECT_EQ(prefetch_groups(132 * 6, 8, kTiles, kBlocks, 132), 132U);
  EXPECT_EQ(prefetch_groups(132 * 6 + 1, 8, kTiles, kBlocks, 132), 133U);
  // The projections of the 35B model on 132 multiprocessors: one wave.
  EXPECT_EQ(prefetch_groups(772, 8, kTiles, kBlocks, 132), 132U);
  EXPECT_EQ(prefetch_groups(576, 8, kTiles, kBlocks, 132), 132U);
  EXPECT_EQ(prefetch_groups(128, 16, AddProject::max_tiles, AddProject::tile_blocks, 132), 128U);

  for (const uint parts : {1U, 7U, 8U, 9U, 16U, 17U, 24U, 25U, 32U, 48U}) {
    for (const uint multiprocessors : {1U, 4U, 132U}) {
      for (const uint tiles : {1U, 3U, 5U, 6U, 7U, 100U, 772U}) {
        const uint groups = prefetch_groups(tiles, parts, kTiles, kBlocks, multiprocessors);
        const uint most = fullest(tiles, groups);
        ASSERT_LE(most, kTiles);
        ASSERT_LE(most * parts, kBlocks) << tiles << " tiles of " << parts << " in " << groups;
        ASSERT_LE(groups, std::max(tiles, multiprocessors));
      }
    }
  }
}

TEST(Select, HeadGroupsAreThreePerMultiprocessorAtMostAndNoneIsIdle) {
  constexpr uint kSimdgroups = HeadProject::threads / 32;
  EXPECT_EQ(head_groups(1, 132), 1U);
  EXPECT_EQ(head_groups(kSimdgroups, 132), 1U);
  EXPECT_EQ(head_groups(kSimdgroups + 1, 132), 2U);
  EXPECT_EQ(head_groups(396 * kSimdgroups - kSimdgroups, 132), 395U);
  EXPECT_EQ(head_groups(396 * kSimdgroups, 132), 396U);
  EXPECT_EQ(head_groups(396 * kSimdgroups + 1, 132), 396U);
}

TEST(Select, SamplesInASlicePerMultiprocessor) {
  constexpr uint kThreads = SampleAdjust::threads, kMost = SampleShape::max_slices;
  EXPECT_EQ(sample_slices(1, 132), 1U);
  EXPECT_EQ(sample_slices(kThreads, 132), 1U);
  EXPECT_EQ(sample_slices(kThreads + 1, 132), 2U);
  EXPECT_EQ(sample_slices(131 * kThreads, 132), 131U);
  EXPECT_EQ(sample_slices(132 * kThreads, 132), 132U);
  EXPECT_EQ(sample_slices(248320, 132), 132U);
  EXPECT_EQ(sample_slices(248320, kMost - 1), kMost - 1);
  EXPECT_EQ(sample_slices(248320, kMost + 1), kMost);
}

TEST(Select, ExpertPairsFitTileMemory) {
  EXPECT_EQ(expert_pairs(1), 2U);
  EXPECT_EQ(expert_pairs(8), 2U);  // 2048 inputs in 4 bits
  EXPECT_EQ(expert_pairs(12), 2U);
  EXPECT_EQ(expert_pairs(13), 1U);
  EXPECT_EQ(expert_pairs(16), 1U);  // in 8 bits
  for (uint parts = 1; parts <= ExpertGateUp::tile_blocks / 2; ++parts) {
    ASSERT_LE(2 * expert_pairs(parts) * parts, static_cast<uint>(ExpertGateUp::tile_blocks));
  }
}

TEST(Select, AttentionSplitsGrowWithTheCapacity) {
  EXPECT_EQ(attention_splits(1, 2, 132), 1U);
  EXPECT_EQ(attention_splits(63, 2, 132), 1U);
  EXPECT_EQ(attention_splits(64, 2, 132), 1U);
  EXPECT_EQ(attention_splits(65, 2, 132), 2U);
  EXPECT_EQ(attention_splits(64 * 66 - 64, 2, 132), 65U);
  EXPECT_EQ(attention_splits(64 * 66, 2, 132), 66U);  // a threadgroup on each multiprocessor
  EXPECT_EQ(attention_splits(262144, 2, 132), 66U);
  EXPECT_EQ(attention_splits(262144, 2, 64), 32U);
  EXPECT_EQ(attention_splits(262144, 2, 63), 63U);  // two on a small device's
  EXPECT_EQ(attention_splits(262144, 1000, 132), 1U);
}

TEST(Select, CodesAreConvertedByAFixedNumberOfThreadgroups) {
  EXPECT_EQ(cache_groups(2, 132), 528U);
  EXPECT_EQ(cache_groups(8, 1), 1U);
  EXPECT_EQ(cache_groups(9, 1), 1U);
}

TEST(Select, PathsOfPrefillChangeAtTheirBoundaries) {
  constexpr uint kSmall = SmallProject::max_tokens, kChunk = DeltaChunks::chunk;
  EXPECT_EQ(product_for(2), Product::small);
  EXPECT_EQ(product_for(kSmall - 1), Product::small);
  EXPECT_EQ(product_for(kSmall), Product::small);
  EXPECT_EQ(product_for(kSmall + 1), Product::tiles);
  EXPECT_EQ(delta_rule_for(2), DeltaRule::scan);
  EXPECT_EQ(delta_rule_for(kChunk - 1), DeltaRule::scan);
  EXPECT_EQ(delta_rule_for(kChunk), DeltaRule::chunks);
  EXPECT_EQ(delta_rule_for(kChunk + 1), DeltaRule::chunks);
  EXPECT_EQ(attention_for(2), Attention::splits);
  EXPECT_EQ(attention_for(kFewTokens - 1), Attention::splits);
  EXPECT_EQ(attention_for(kFewTokens), Attention::splits);
  EXPECT_EQ(attention_for(kFewTokens + 1), Attention::tiles);
  EXPECT_EQ(experts_for(2, 1), Experts::by_token);
  EXPECT_EQ(experts_for(kFewTokens - 1, 1), Experts::by_token);
  EXPECT_EQ(experts_for(kFewTokens, 1), Experts::by_token);
  EXPECT_EQ(experts_for(kFewTokens + 1, 1), Experts::sorted);
  EXPECT_EQ(experts_for(kFewTokens + 1, 2), Experts::by_token);
}

TEST(Select, LargeDevicesReadLongerPieces) {
  EXPECT_EQ(prefill_rows(1), 512U);
  EXPECT_EQ(prefill_rows(63), 512U);
  EXPECT_EQ(prefill_rows(64), 4096U);
  EXPECT_EQ(prefill_rows(132), 4096U);
}

// Every expert may leave one tile that is not full.
TEST(Select, ExpertTilesHoldTheWorstCase) {
  for (const uint assignments : {1U, 63U, 64U, 65U, 4096U}) {
    const uint experts = std::min(assignments, 256U);  // all but one with a single assignment
    const uint full = (assignments - (experts - 1) + 63) / 64;
    ASSERT_GE(expert_tiles(assignments), full + experts - 1) << assignments;
  }
}

}  // namespace
}  // namespace lily::gpu
