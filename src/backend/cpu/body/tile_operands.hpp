// What the matrix tiles multiply, and what scales their sums: unpacked codes and rows of tokens.
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

constexpr int kTileTokens = 16;
constexpr int kTileBytes = 1024;
// Codes are unpacked for a panel of four blocks of 16 rows and a slice of four groups at a time (16 KiB,
// which stay in the first-level cache), and then reused by up to 256 tokens.
constexpr int kPanelBlocks = 4;
constexpr int kSliceGroups = 4;
constexpr int kPanelTokens = 256;
constexpr int kPanelTiles = kPanelTokens / kTileTokens;

constexpr int slices_of(int groups) { return (groups + kSliceGroups - 1) / kSliceGroups; }

// 16 tokens. Codes have one or two terms; rows are `stride` bytes apart.
struct TokenTile {
  const std::int8_t *high = nullptr, *low = nullptr;
  std::ptrdiff_t stride = 0;
};

// ActivationRow's scales and sums of a slice.
struct TokenFactors {
  float scales[kTileTokens][kSliceGroups];
  float sums[kTileTokens][kSliceGroups];
};

// Of a group of 16 rows.
struct RowFactors {
  float scales[kLanes], biases[kLanes];
};

// A thread's memory for one matrix shape and number of tokens. Codes and the tiles' sums begin at a page, so
// that sums can be stored elsewhere in their page than the codes that are loaded meanwhile: a load waits for
// a store in flight to the same place in a page.
class Workspace {
 public:
  Workspace(int groups, int tokens, int terms)
      : groups_(groups),
        terms_(terms),
        // One group more than there are, so that the rows of a tile do not all fall into two sets of a cache.
        row_bytes_(static_cast<std::ptrdiff_t>(groups + 1) * kGroup) {
    const int most = std::min(tokens, kPanelTokens);
    const auto tiles = static_cast<std::size_t>((most + kTileTokens - 1) / kTileTokens);
    const std::size_t rows = tiles * kTileTokens * static_cast<std::size_t>(terms * row_bytes_);
    const std::size_t factors = tiles * static_cast<std::size_t>(slices_of(groups)) * sizeof(TokenFactors);
    std::int8_t* memory = lily::cpu::tile_scratch(sizeof(Fixed) + factors + rows);
    fixed_ = reinterpret_cast<Fixed*>(memory);
    factors_ = reinterpret_cast<TokenFactors*>(memory + sizeof(Fixed));
    rows_ = memory + sizeof(Fixed) + factors;
  }

  // [group of the slice][kTileBytes]
  std::byte (*codes(int block))[kTileBytes] { return fixed_->codes[block]; }
  std::byte* sums(int place) { return fixed_->sums[place]; }
  // [kTileTokens][kLanes]
  float* results(int tile, int block) { return fixed_->results[tile][block][0]; }
  RowFactors& row_factors(int block, int group) { return fixed_->rows[block][group]; }
  const TokenTile& tokens(int tile) const { return fixed_->tokens[tile]; }
  TokenFactors& token_factors(int tile, int slice) { return factors_[tile * slices_of(groups_) + slice]; }

  // Finds the rows of up to kPanelTokens tokens: in place where 16 lie at equal distances, else copied. Rows
  // that are missing in the last tile are zeros.
  void take_tokens(const ActivationRow* rows, int tokens) {
    for (int first = 0; first < tokens; first += kTileTokens) {
      const int tile = first / kTileTokens, present = std::min(kTileTokens, tokens - first);
      take_codes(rows + first, present, tile);
      for (int t = 0; t < kTileTokens; ++t) take_factors(t < present ? rows + first + t : nullptr, tile, t);
    }
  }

  // Groups [first, first + count) of `blocks` blocks from `data` on.
  void take_slice(const std::byte* data, const PackedMatrix& matrix, int blocks, int first, int count) {
    const std::size_t group_bytes = matrix.group_bytes();
    for (int b = 0; b < blocks; ++b) {
      const std::byte* group = data + static_cast<std::size_t>(b) * matrix.block_bytes() +
                               static_cast<std::size_t>(first) * group_bytes;
      for (int g = 0; g < count; ++g, group += group_bytes) {
        unpack(group, matrix.planes, codes(b)[g]);
        const auto* affine = reinterpret_cast<const std::uint16_t*>(group + group_bytes - 64);
        Simd::store(row_factors(b, g).scales, Simd::load_bf16(affine));
        Simd::store(row_factors(b, g).biases, Simd::load_bf16(affine + kLanes));
      }
    }
  }

 private:
  struct alignas(4096) Fixed {
    std::byte codes[kPanelBlocks][kSliceGroups][kTileBytes];
    std::byte sums[8][kTileBytes];
    float results[kPanelTiles][kPanelBlocks][kTileTokens][kLanes];
    RowFactors rows[kPanelBlocks][kSliceGroups];
    TokenTile tokens[kPanelTiles];
  };

  // A group of 16 rows as a tile of unsigned bytes; two planes of four bits become one byte.
  LILY_INLINE void unpack(const std::byte* group, int planes, std::byte* tile) {
    using Bytes = std::uint64_t __attribute__((vector_size(64)));
    constexpr std::uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
    for (int c = 0; c < 8; ++c) {
      Bytes codes;
      std::memcpy(&codes, group + c * 64, 64);
      Bytes even = codes & kLow, odd = (codes >> 4) & kLow;
      if (planes == 2) {
        std::memcpy(&codes, group + 512 + c * 64, 64);
        even = (even << 4) | (codes & kLow);
        odd = (odd << 4) | ((codes >> 4) & kLow);
      }
      std::memcpy(tile + c * 128, &even, 64);
      std::memcpy(tile + c * 128 + 64, &odd, 64);
    }
  }

  static bool evenly_spaced(const ActivationRow* rows, std::ptrdiff_t stride) {
    for (int t = 1; t < kTileTokens; ++t) {
      if (rows[t].high - rows[t - 1].high != stride) return false;
      if (rows[t].low != nullptr && rows[t].low - rows[t - 1].low != stride) return false;
    }
    return true;
  }

  void take_codes(const ActivationRow* rows, int present, int tile) {
    TokenTile& found = fixed_->tokens[tile];
    if (present == kTileTokens) {
      found = {rows->high, rows->low, rows[1].high - rows->high};
      if (evenly_spaced(rows, found.stride)) return;
    }
    std::int8_t* high = rows_ + tile * kTileTokens * terms_ * row_bytes_;
    std::int8_t* low = terms_ == 2 ? high + kTileTokens * row_bytes_ : nullptr;
    const auto bytes = static_cast<std::size_t>(groups_) * kGroup;
    for (int t = 0; t < kTileTokens; ++t) {
      if (t < present) {
        std::memcpy(high + t * row_bytes_, rows[t].high, bytes);
        if (low != nullptr) std::memcpy(low + t * row_bytes_, rows[t].low, bytes);
      } else {
        std::memset(high + t * row_bytes_, 0, bytes);
        if (low != nullptr) std::memset(low + t * row_bytes_, 0, bytes);
      }
    }
    found = {high, low, row_bytes_};
  }

  void take_factors(const ActivationRow* row, int tile, int t) {
    for (int g = 0; g < groups_; ++g) {
      TokenFactors& factors = token_factors(tile, g / kSliceGroups);
      factors.scales[t][g % kSliceGroups] = row != nullptr ? row->scales[g] : 0.0F;
      factors.sums[t][g % kSliceGroups] = row != nullptr ? row->sums[g] : 0.0F;
    }
  }

  int groups_, terms_;
  std::ptrdiff_t row_bytes_;
  Fixed* fixed_;
  TokenFactors* factors_;
  std::int8_t* rows_;
};

}  // namespace tiled

}  // namespace
