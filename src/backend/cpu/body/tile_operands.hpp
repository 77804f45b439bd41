// What matrix tiles multiply: unpacked weights, gathered activations, and the memory for both.
//
// A class of Words makes them (simd/avx512_words.hpp, simd/plain_words.hpp). All columns are in the order of
// tiles: column c of each 32 lies at 8 (c % 4) + c / 4.
//   Scratch                       what unpack keeps from one piece to the next
//   unpack<piece>(unit, scratch)  bf16(scale * code + bias) of a group of 16 packed rows of 4-bit codes; in
//                                 order the pieces 0 to kPieces - 1, which take about the same time
//   unpack_bytes(unit, scratch)   the same of 8-bit codes, in one piece
//   round(x, out)                 32 values, rounded to bf16
//   transpose<quarter>(row, out, stride, count, past_cache)
//                                 word j of row(i), of 16 x 16 words of 32 bits, to word i of out + j *
//                                 stride, for the j of the quarter that are below `count`; past_cache: `out`
//                                 is written past the caches
//   fence()                       after such writes
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels.hpp"
#include "backend/cpu/tile_scratch.hpp"

namespace {

namespace tiled {

using lily::cpu::ActivationRow;
using lily::cpu::kGroup;
using lily::cpu::kLanes;
using lily::cpu::PackedMatrix;

constexpr int kTileBytes = 1024;
constexpr int kTileTokens = 16;
constexpr int kTileColumns = 32;
constexpr int kTilesPerGroup = kGroup / kTileColumns;
// Two blocks of 16 rows, two or four groups of them at a time: 8 or 16 KiB, and as much for what is unpacked
// next. Few tokens do better with little memory (32 tokens 771 GOP/s, with four groups 563; 72 tokens 910 and
// 771), many with fewer changes of sums (256 tokens 987 and 1,056).
constexpr int kPanelBlocks = 2;
constexpr int kMostSliceGroups = 4;
constexpr int slice_groups(int token_tiles) { return token_tiles <= 8 ? 2 : kMostSliceGroups; }
// Tokens that reuse unpacked weights. Their 2,048 columns take 1 MiB of the second-level cache.
constexpr int kPanelTokens = 256;

// A group of 16 packed rows, and the tiles [16 rows][32 columns] of its columns 0 .. 31 and 32 .. 63.
struct Unit {
  const std::byte* group = nullptr;
  std::byte *first = nullptr, *second = nullptr;
};

// A slice of a panel of weights, unpacked group by group and block by block into tiles [32 columns][block].
class Unpacking {
 public:
  // Groups [first, first + groups) of `blocks` blocks that begin at `data`.
  void begin(const PackedMatrix& matrix, const std::byte* data, int blocks, int first, int groups,
             std::byte* tiles) {
    block_bytes_ = matrix.block_bytes();
    group_bytes_ = matrix.group_bytes();
    planes_ = matrix.planes;
    at_ = data + static_cast<std::size_t>(first) * group_bytes_;
    tiles_ = tiles;
    blocks_ = blocks;
    block_ = 0;
    left_ = blocks * groups;
  }

  // Groups that are not unpacked yet.
  int left() const { return left_; }
  int planes() const { return planes_; }

  // The next of them; asks for the same group of the next panel.
  inline __attribute__((always_inline)) Unit take() {
    const std::byte* group = at_ + static_cast<std::size_t>(block_) * block_bytes_;
    const std::byte* next = group + static_cast<std::size_t>(blocks_) * block_bytes_;
#pragma GCC unroll 9
    for (int line = 0; line < 9; ++line) __builtin_prefetch(next + line * 64, 0, 2);
    std::byte* first = tiles_ + block_ * kTileBytes;
    const Unit unit{group, first, first + blocks_ * kTileBytes};
    --left_;
    if (++block_ == blocks_) {
      block_ = 0;
      at_ += group_bytes_;
      tiles_ += kTilesPerGroup * blocks_ * kTileBytes;
    }
    return unit;
  }

 private:
  const std::byte* at_ = nullptr;
  std::byte* tiles_ = nullptr;
  std::size_t block_bytes_ = 0, group_bytes_ = 0;
  int planes_ = 1, blocks_ = 0, block_ = 0, left_ = 0;
};

template <class Words, class Row>
inline __attribute__((always_inline)) void transpose_all(const Row& row, std::byte* out,
                                                         std::ptrdiff_t stride, int count,
                                                         bool past_cache = false) {
  Words::template transpose<0>(row, out, stride, count, past_cache);
  Words::template transpose<1>(row, out, stride, count, past_cache);
  Words::template transpose<2>(row, out, stride, count, past_cache);
  Words::template transpose<3>(row, out, stride, count, past_cache);
}

// A thread's memory for one matrix shape and number of tokens.
class Workspace {
 public:
  Workspace(int groups, int tokens) : token_tile_bytes_(groups * kTilesPerGroup * kTileBytes) {
    const int most = std::min(tokens, kPanelTokens), tiles = (most + kTileTokens - 1) / kTileTokens;
    const std::size_t results = static_cast<std::size_t>(tiles) * kPanelBlocks * kTileBytes;
    weights_ = reinterpret_cast<std::byte*>(lily::cpu::tile_scratch(
        2 * kSliceBytes + results + static_cast<std::size_t>(tiles * token_tile_bytes_)));
    results_ = weights_ + 2 * kSliceBytes;
    tokens_ = results_ + results;
  }

  // One of two slices: one is multiplied while the other is unpacked.
  std::byte* weights(int which) { return weights_ + static_cast<std::size_t>(which) * kSliceBytes; }
  // fp32 [token tile][block][16 rows][16 tokens]
  std::byte* results(int token_tile, int blocks) { return results_ + token_tile * blocks * kTileBytes; }
  // bf16 [32 columns of `group` on][16 pairs of columns][16 tokens][2]
  std::byte* tokens(int token_tile, int group) {
    return tokens_ + token_tile * token_tile_bytes_ + group * kTilesPerGroup * kTileBytes;
  }
  std::ptrdiff_t token_tile_bytes() const { return token_tile_bytes_; }

  // Brings the rows of up to kPanelTokens tokens into the order of tiles. What a tile lacks in tokens are
  // copies, whose results nobody reads.
  template <class Words>
  void gather(const ActivationRow* rows, int count) {
    constexpr int kAhead = 8;
    for (int first = 0; first < count; first += kTileTokens) {
      const std::byte* row[kTileTokens];
      for (int t = 0; t < kTileTokens; ++t) {
        row[t] = reinterpret_cast<const std::byte*>(rows[std::min(first + t, count - 1)].bf16);
      }
      std::byte* tiles = tokens(first / kTileTokens, 0);
      const int steps = static_cast<int>(token_tile_bytes_ / kTileBytes);
      for (int k = 0; k < steps; ++k) {
        for (const std::byte* r : row) __builtin_prefetch(r + (k + kAhead) * 64, 0, 3);
        const auto at = [&](int t) __attribute__((always_inline)) { return row[t] + k * 64; };
        transpose_all<Words>(at, tiles + k * kTileBytes, 64, kTileTokens);
      }
    }
  }

 private:
  static constexpr std::size_t kSliceBytes =
      std::size_t{kPanelBlocks} * kMostSliceGroups * kTilesPerGroup * kTileBytes;

  std::ptrdiff_t token_tile_bytes_;
  std::byte *weights_, *results_, *tokens_;
};

}  // namespace tiled

}  // namespace
