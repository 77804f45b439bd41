// Which kernel, and how many threadgroups, for which shape: plain arithmetic, no device.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// How a product with prefetched tiles is split: threadgroups, at most `max_tiles` row tiles of `parts` blocks
// each. As many as the device runs at once, more where tile memory is too small, fewer where there are not as
// many tiles.
uint prefetch_groups(uint tiles, uint parts, uint max_tiles, uint tile_blocks, uint multiprocessors);

// Threadgroups of HeadProject, two per multiprocessor: enough to keep memory busy, with one wave.
uint head_groups(uint tiles, uint multiprocessors);

// Pairs of gate and up tiles that a threadgroup of ExpertGateUp takes.
uint expert_pairs(uint parts);

// Splits of attention for `rows` tokens at once in a sequence of up to `capacity` positions.
uint attention_splits(uint capacity, uint kv_heads, uint rows, uint multiprocessors);

}  // namespace lily::gpu
