// All kernels by name: the one place where a new kernel is announced to hosts and tests.
#pragma once

#define LILY_GPU_KERNELS(KERNEL) \
  KERNEL(EmbedRow)               \
  KERNEL(NormProject)            \
  KERNEL(HeadProject)            \
  KERNEL(AddProject)             \
  KERNEL(AddGatedProject)        \
  KERNEL(AttentionPrepare)       \
  KERNEL(AttentionCombine)       \
  KERNEL(AttentionPrepareInt8)   \
  KERNEL(AttentionDecode)        \
  KERNEL(AttentionDecodeInt8)    \
  KERNEL(AttentionPrefill)       \
  KERNEL(CacheHalves)            \
  KERNEL(DeltaStep)              \
  KERNEL(DeltaWindow)            \
  KERNEL(RouterProject)          \
  KERNEL(ExpertGateUp)           \
  KERNEL(ExpertDown)             \
  KERNEL(TopExperts)             \
  KERNEL(CountExperts)           \
  KERNEL(ExpertOffsets)          \
  KERNEL(SortByExpert)           \
  KERNEL(NormRows)               \
  KERNEL(GatedNormRows)          \
  KERNEL(HalfRows)               \
  KERNEL(TileProject)            \
  KERNEL(TileAddProject)         \
  KERNEL(TileGateUp)             \
  KERNEL(SmallProject)           \
  KERNEL(ExpertTiles)            \
  KERNEL(ExpertTileGateUp)       \
  KERNEL(ExpertTileDown)         \
  KERNEL(ExpertCombine)          \
  KERNEL(DeltaInputs)            \
  KERNEL(DeltaScan)              \
  KERNEL(DeltaChunks)            \
  KERNEL(DeltaChunkScan)         \
  KERNEL(SampleAdjust)           \
  KERNEL(HeadBest)               \
  KERNEL(SampleHistogram)        \
  KERNEL(SampleCollect)          \
  KERNEL(SampleDraw)
