// Which kernel, and how many threadgroups, for which shape: plain arithmetic, no device.
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// How a product of one token with prefetched tiles is split: threadgroups, at most `max_tiles` row tiles of
// `parts` blocks each. As many as the device runs at once, more where tile memory is too small, fewer where
// there are not as many tiles.
uint prefetch_groups(uint tiles, uint parts, uint max_tiles, uint tile_blocks, uint multiprocessors);

// Threadgroups of HeadProject, three per multiprocessor: enough to keep memory busy, with one wave.
uint head_groups(uint tiles, uint multiprocessors);

// Slices of the vocabulary in which a token is sampled: one per multiprocessor, with a thread for each row at
// least.
uint sample_slices(uint rows, uint multiprocessors);

// Pairs of gate and up tiles that a threadgroup of ExpertGateUp takes.
uint expert_pairs(uint parts);

// Splits of a token's attention in a sequence of up to `capacity` positions.
uint attention_splits(uint capacity, uint kv_heads, uint multiprocessors);

// Threadgroups of CacheHalves for each KV head: enough to keep memory busy.
uint cache_groups(uint kv_heads, uint multiprocessors);

// How a pass of several tokens multiplies: few of them wait for the weights (SmallProject), many for the
// matrix unit (TileProject).
enum class Product { small, tiles };
Product product_for(uint rows);

// How a pass of several tokens runs the delta rule: token after token, or in chunks once one is full.
enum class DeltaRule { scan, chunks };
DeltaRule delta_rule_for(uint rows);

// Up to so many tokens a pass does what decode does wherever tokens share little: a short prompt behind a
// long, already known beginning, or drafts to verify.
constexpr uint kFewTokens = 16;

// How a pass of several tokens attends: each token on its own, split over the positions, so that few tokens
// keep the device busy however many positions there are; or on matrix tiles of tokens.
enum class Attention { splits, tiles };
Attention attention_for(uint rows);

// How a pass of several tokens runs its experts: sorted by expert on matrix tiles; or token by token as
// decode does, for few tokens, which seldom share an expert, and weights of 8 bits, which those kernels do
// not read.
enum class Experts { sorted, by_token };
Experts experts_for(uint rows, uint planes);

// Tokens of a prompt that go through a layer together. The more, the more an expert gets at once; memory for
// them grows alike, with 0.25 MB a token of the 35B model.
uint prefill_rows(uint multiprocessors);

// Tiles of sorted assignments there may be, each of one expert.
uint expert_tiles(uint assignments);

}  // namespace lily::gpu
