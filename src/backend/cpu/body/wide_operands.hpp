// What matrix tiles multiply: weights and tokens in 8 bits, and the memory for both.
//
// A class of Words makes the operands (simd/avx512_wide_words.hpp, simd/plain_wide_words.hpp):
//   weigh(affine, stride, groups, largest_code, factors, step, scales)
//                                 the slice scales of 16 rows, and their factors in each group
//   unpack<n>(chunks, factors, tile)
//                                 n chunks of 8 columns of 4-bit codes as rows of a tile
//   unpack_bytes(high, low, factors, tile)
//                                 the same of one chunk of 8-bit codes, from both planes
//   round(x, columns, codes)      up to kWideColumns values in the order of tiles; returns their scale
//   add_scaled(sums, scales, token_scale, before, first)
//                                 a row of 16 Lanes: sums * (scales * token_scale) + (first ? 0 : before)
//   load(p), put<past_cache>(to, lanes)
//                                 16 floats; `to` may be halves, which are bf16
//   put<past_cache>(to, first, second)
//                                 the same, 32 of them
//   fence()                       after what was put past the caches
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/cpu/kernels.hpp"
#include "backend/cpu/tile_scratch.hpp"

namespace {

namespace wide {

using lily::cpu::ActivationRow;
using lily::cpu::kGroup;
using lily::cpu::kLanes;
using lily::cpu::kWideGroups;
using lily::cpu::PackedMatrix;

constexpr int kTileBytes = 1024;
constexpr int kTileTokens = 16;
constexpr int kChunksPerGroup = 8, kChunkBytes = 64;
// Two blocks of 16 rows, kWideGroups groups of them at a time: 8 KiB, and as much for what is unpacked next.
constexpr int kPanelBlocks = 2;
constexpr int kSliceTiles = kPanelBlocks * kWideGroups;
// Two tiles of tokens are multiplied at a time.
constexpr int kSumsBytes = 2 * kPanelBlocks * kTileBytes;
// Tokens that reuse unpacked weights. Their 2,048 columns take 512 KiB of the second-level cache.
constexpr int kPanelTokens = 256;

// Weights in 8 bits. In a slice, kWideGroups groups of columns, a row has one scale, its largest weight /
// 126; what the packed code c stands for is then the signed code
//   floor((multiplier * c + offset) / 256), with multiplier = round(256 * group's scale / slice's scale)
//                                           and offset = round(256 * group's bias / slice's scale + 128).
// That is computed in 16 bits, which would not hold 127 and the rounding of 255 multipliers. Each row's
// factors are there twice, for two columns.
struct alignas(64) Factors {
  std::int16_t multiplier[kLanes][2], offset[kLanes][2];
};

// 16 rows' codes of a group, and the tile [16 quads of columns][16 rows][4 columns] that they become.
struct Unit {
  const std::byte* codes = nullptr;
  std::byte* tile = nullptr;
  const Factors* factors = nullptr;
};

// A slice of a panel of weights, unpacked chunk by chunk, into tiles [group][block].
template <class Words>
class Unpacking {
 public:
  // Groups [first, first + groups) of `blocks` blocks that begin at `data`; `scales` is [block][16].
  void begin(const PackedMatrix& matrix, const std::byte* data, int blocks, int first, int groups,
             std::byte* tiles, float* scales) {
    planes_ = matrix.planes;
    next_panel_ = static_cast<std::ptrdiff_t>(matrix.block_bytes()) * blocks;
    const std::size_t group_bytes = matrix.group_bytes(),
                      affine = static_cast<std::size_t>(planes_) * kChunksPerGroup * kChunkBytes;
    data += static_cast<std::size_t>(first) * group_bytes;
    for (int b = 0; b < blocks; ++b) {
      const std::byte* block = data + static_cast<std::size_t>(b) * matrix.block_bytes();
      Words::weigh(block + affine, group_bytes, groups, planes_ == 1 ? 15 : 255, factors_ + b, blocks,
                   scales + b * kLanes);
      for (int g = 0; g < groups; ++g) {
        const int unit = g * blocks + b;
        __builtin_prefetch(block + static_cast<std::size_t>(g) * group_bytes + affine + next_panel_, 0, 2);
        units_[unit] = {block + static_cast<std::size_t>(g) * group_bytes, tiles + unit * kTileBytes,
                        factors_ + unit};
      }
    }
    at_ = 0;
    end_ = blocks * groups;
  }

  // Units that are not unpacked yet.
  int left() const { return end_ - at_; }
  // Whether a unit may be unpacked in pieces, by `chunks`.
  bool in_pieces() const { return planes_ == 1; }
  // The units from the next one on; `done` of them are then unpacked.
  const Unit* next() const { return units_ + at_; }
  void skip(int done) { at_ += done; }

  // Chunks [chunk, chunk + kCount) of a unit; asks for the same chunks of the next panel.
  template <int kCount>
  inline __attribute__((always_inline)) void chunks(const Unit& unit, int chunk) const {
    const std::byte* codes = unit.codes + chunk * kChunkBytes;
    const std::byte* next = codes + next_panel_;
#pragma GCC unroll 8
    for (int c = 0; c < kCount; ++c) __builtin_prefetch(next + c * kChunkBytes, 0, 2);
    Words::template unpack<kCount>(codes, *unit.factors, unit.tile + chunk * 2 * kChunkBytes);
  }

  void finish() {
    for (; at_ < end_; ++at_) {
      const Unit& unit = units_[at_];
      if (planes_ == 1) {
        chunks<kChunksPerGroup>(unit, 0);
        continue;
      }
      for (int chunk = 0; chunk < kChunksPerGroup; ++chunk) {
        const std::byte* codes = unit.codes + chunk * kChunkBytes;
        Words::unpack_bytes(codes, codes + kChunksPerGroup * kChunkBytes, *unit.factors,
                            unit.tile + chunk * 2 * kChunkBytes);
      }
    }
  }

 private:
  Unit units_[kSliceTiles];
  Factors factors_[kSliceTiles];
  std::ptrdiff_t next_panel_ = 0;
  int planes_ = 1, at_ = 0, end_ = 0;
};

// Sums of products in tiles [token tile][kPanelBlocks blocks] of [16 tokens][16 rows], on their way to the
// results, which are float or halves.
template <class Words, class Result>
struct Sums {
  std::byte* memory = nullptr;          // int32, kSumsBytes, where they wait to be scaled
  const float* scales = nullptr;        // [block][16], of rows
  const float* token_scales = nullptr;  // [token tile][16]
  float* partial = nullptr;             // [token tile][kPanelBlocks][16][16], sums of the slices before
  Result* out = nullptr;                // results, of the last slice
  std::ptrdiff_t stride = 0;            // of tokens' results
  int tokens = 0, token_tiles = 0, blocks = 0;
  bool first = false, last = false;  // of the slices
  bool past_cache = false;

  // Whether all of their tiles' rows go somewhere.
  bool whole() const { return blocks == kPanelBlocks && (!last || tokens >= token_tiles * kTileTokens); }
  // Tokens [token, token + kCount), all of one tile.
  template <int kBlocks, int kCount>
  inline __attribute__((always_inline)) void scale_rows(int token) const {
    using Lanes = typename Words::Lanes;
    const int tile = token / kTileTokens * kPanelBlocks, row = token % kTileTokens;
    Lanes of_rows[kBlocks], values[kCount][kBlocks];
    for (int b = 0; b < kBlocks; ++b) of_rows[b] = Words::load(scales + b * kLanes);
    for (int i = 0; i < kCount; ++i) {
      for (int b = 0; b < kBlocks; ++b) {
        const int at = ((tile + b) * kTileTokens + row + i) * kLanes;
        values[i][b] = Words::add_scaled(memory + at * sizeof(float), of_rows[b], token_scales[token + i],
                                         partial + at, first);
      }
    }
    if (!last) {
      for (int i = 0; i < kCount; ++i) {
        for (int b = 0; b < kBlocks; ++b) {
          Words::template put<false>(partial + ((tile + b) * kTileTokens + row + i) * kLanes, values[i][b]);
        }
      }
    } else if (past_cache) {
      for (int i = 0; i < kCount; ++i) put_row<true, kBlocks>(token + i, values[i]);
    } else {
      for (int i = 0; i < kCount; ++i) put_row<false, kBlocks>(token + i, values[i]);
    }
  }
  void scale() const {
    const int count = last ? std::min(tokens, token_tiles * kTileTokens) : token_tiles * kTileTokens;
    for (int i = 0; i < count; ++i) blocks == 2 ? scale_rows<2, 1>(i) : scale_rows<1, 1>(i);
  }

 private:
  template <bool kPastCache, int kBlocks>
  inline __attribute__((always_inline)) void put_row(int token, const typename Words::Lanes* values) const {
    Result* to = out + token * stride;
    if constexpr (kBlocks == 2) {
      Words::template put<kPastCache>(to, values[0], values[1]);
    } else {
      Words::template put<kPastCache>(to, values[0]);
    }
  }
};

// Codes of 16 tokens and a group's columns, and the steps in bytes to the next token, group and 16 tokens.
struct TokenTile {
  const std::byte* codes;
  std::ptrdiff_t token, group, tile;
};

// A thread's memory for one matrix shape and number of tokens.
class Workspace {
 public:
  Workspace(int groups, int tokens)
      : groups_(groups),
        slices_((groups + kWideGroups - 1) / kWideGroups),
        tiles_((std::min(tokens, kPanelTokens) + kTileTokens - 1) / kTileTokens) {
    const auto count = static_cast<std::size_t>(tiles_);
    const std::size_t partial = count * kPanelBlocks * kTileBytes,
                      scales = static_cast<std::size_t>(slices_) * count * kTileTokens * sizeof(float),
                      tokens_bytes = count * static_cast<std::size_t>(groups) * kTileBytes;
    weights_ = reinterpret_cast<std::byte*>(
        lily::cpu::tile_scratch(2 * kSliceBytes + 2 * kSumsBytes + partial + tokens_bytes + scales));
    sums_ = weights_ + 2 * kSliceBytes;
    partial_ = sums_ + 2 * kSumsBytes;
    tokens_ = partial_ + partial;
    token_scales_ = reinterpret_cast<float*>(tokens_ + tokens_bytes);
  }

  int slices() const { return slices_; }
  int groups(int slice) const { return std::min(kWideGroups, groups_ - slice * kWideGroups); }

  // One of two slices: one is multiplied while the other is unpacked.
  std::byte* weights(int which) { return weights_ + static_cast<std::size_t>(which) * kSliceBytes; }
  // One of two: one is scaled while the other is filled.
  std::byte* sums(int which) { return sums_ + which * kSumsBytes; }
  // fp32 [token tile][kPanelBlocks][16 tokens][16 rows]
  float* partial(int token_tile) {
    return reinterpret_cast<float*>(partial_ + token_tile * kPanelBlocks * kTileBytes);
  }
  TokenTile tokens(int slice, int token_tile) const {
    if (in_place_ != nullptr) {
      return {in_place_ + token_tile * kTileTokens * row_bytes_ + slice * lily::cpu::kWideColumns, row_bytes_,
              kGroup, kTileTokens * row_bytes_};
    }
    return {tile(slice, token_tile), kGroup, kTileBytes, std::ptrdiff_t{groups(slice)} * kTileBytes};
  }
  // [16]
  const float* token_scales(int slice, int token_tile) const {
    return token_scales_ + (slice * tiles_ + token_tile) * kTileTokens;
  }

  // Takes up to kPanelTokens tokens: where they lie, if their rows are evenly spaced and fill tiles, or else
  // copied into tiles. What a tile then lacks in tokens are copies too, whose results nobody reads.
  void take(const ActivationRow* rows, int count) {
    tiles_ = (count + kTileTokens - 1) / kTileTokens;
    if (!evenly_spaced(rows, count)) return gather(rows, count);
    in_place_ = reinterpret_cast<const std::byte*>(rows[0].high);
    for (int t = 0; t < count; ++t) take_scales(rows[t], t);
  }

 private:
  bool evenly_spaced(const ActivationRow* rows, int count) {
    if (count % kTileTokens != 0) return false;
    row_bytes_ = rows[1].high - rows[0].high;
    for (int t = 2; t < count; ++t) {
      if (rows[t].high - rows[t - 1].high != row_bytes_) return false;
    }
    return true;
  }
  void take_scales(const ActivationRow& row, int token) {
    for (int s = 0; s < slices_; ++s) token_scales_[s * tiles_ * kTileTokens + token] = row.scales[s];
  }
  // int8 [slice][token tile][group of the slice][16 tokens][64 columns]
  std::byte* tile(int slice, int token_tile) const {
    const std::ptrdiff_t before = static_cast<std::ptrdiff_t>(slice) * kWideGroups * tiles_ +
                                  static_cast<std::ptrdiff_t>(token_tile) * groups(slice);
    return tokens_ + before * kTileBytes;
  }
  void gather(const ActivationRow* rows, int count) {
    constexpr int kAhead = 2;  // rows asked for
    in_place_ = nullptr;
    for (int t = 0; t < tiles_ * kTileTokens; ++t) {
      const ActivationRow& row = rows[std::min(t, count - 1)];
      const std::int8_t *codes = row.high, *next = rows[std::min(t + kAhead, count - 1)].high;
      for (int s = 0; s < slices_; ++s) {
        std::byte* to = tile(s, t / kTileTokens) + t % kTileTokens * kGroup;
        for (int g = 0; g < groups(s); ++g, codes += kGroup, next += kGroup, to += kTileBytes) {
          __builtin_prefetch(next, 0, 3);
          std::memcpy(to, codes, kGroup);
        }
      }
      take_scales(row, t);
    }
  }

  static constexpr std::size_t kSliceBytes = std::size_t{kSliceTiles} * kTileBytes;

  int groups_, slices_, tiles_;
  std::byte *weights_, *sums_, *partial_, *tokens_;
  const std::byte* in_place_ = nullptr;  // where the first token's codes lie, if not in tokens_
  std::ptrdiff_t row_bytes_ = 0;
  float* token_scales_;
};

}  // namespace wide

}  // namespace
