// Packed codes times many activation rows on matrix tiles, over any Simd and any Tiles.
//
// A class of Tiles has eight tiles of 16 rows x 64 bytes, numbered at compile time:
//   zero<t>()             t = 0
//   load<t>(p, stride)    row r of t = 64 bytes at p + r * stride
//   store<t>(p)           the rows of t, one after the other, to p
//   dot<c, a, b>()        c[m][n] += sum_k a[m][k] * b[k / 4][4 n + k % 4], c int32, a int8, b uint8
//
// One group of 64 columns is one dot of depth 64: 16 tokens by 16 matrix rows. An unpacked group of 16 rows
// already lies as b wants it (nibbles of chunk c are rows 2c and 2c + 1), activations in chunk order as a.
// Every sum is then scaled in vector registers by the very operations of body/matmul.hpp in their order, so
// that both give the same bits.
#pragma once

#include <cstring>

#include "backend/cpu/kernels.hpp"
#include "backend/cpu/tile_scratch.hpp"

namespace {

namespace tiled {

using lily::cpu::ActivationRow;
using lily::cpu::kGroup;
using lily::cpu::kLanes;
using lily::cpu::PackedMatrix;
using F = Simd::F;
using I = Simd::I;

constexpr int kTileTokens = 16;
constexpr int kTileBytes = 1024;
// Codes are unpacked for two blocks of 16 rows and eight groups at a time (16 KiB, which stay in the
// first-level cache), and then reused by up to 256 tokens.
constexpr int kPanelBlocks = 2;
constexpr int kSliceGroups = 8;
constexpr int kPanelTokens = 256;

// 16 tokens: two terms each, or one.
struct TokenTile {
  const std::int8_t *high = nullptr, *low = nullptr;
  std::ptrdiff_t stride = 0;  // between tokens
};

struct Scratch {
  alignas(64) std::byte codes[kPanelBlocks][kSliceGroups][kTileBytes];
  alignas(64) float results[kPanelTokens][kPanelBlocks][kLanes];
  alignas(64) std::int32_t sums[4][kTileTokens][kLanes];
  TokenTile tokens[kPanelTokens / kTileTokens];
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

inline bool evenly_spaced(const ActivationRow* rows, std::ptrdiff_t stride) {
  for (int t = 1; t < kTileTokens; ++t) {
    if (rows[t].high - rows[t - 1].high != stride) return false;
    if (rows[t].low != nullptr && rows[t].low - rows[t - 1].low != stride) return false;
  }
  return true;
}

// Copies `count` rows of codes to `out` and fills up with zeros to 16.
inline void gather(const ActivationRow* rows, std::int8_t* ActivationRow::*term, int count, int columns,
                   std::int8_t* out) {
  const auto bytes = static_cast<std::size_t>(columns);
  for (int t = 0; t < count; ++t)
    std::memcpy(out + static_cast<std::size_t>(t) * bytes, rows[t].*term, bytes);
  std::memset(out + static_cast<std::size_t>(count) * bytes, 0,
              static_cast<std::size_t>(kTileTokens - count) * bytes);
}

// Finds the rows of up to kPanelTokens tokens: in place where 16 lie at equal distances, else gathered.
inline void find_tokens(const ActivationRow* rows, int tokens, int columns, Scratch& scratch) {
  const int tiles = (tokens + kTileTokens - 1) / kTileTokens;
  const std::size_t tile_bytes = static_cast<std::size_t>(columns) * kTileTokens;
  std::int8_t* memory = lily::cpu::tile_scratch(2 * tile_bytes * static_cast<std::size_t>(tiles));
  for (int i = 0; i < tiles; ++i, memory += 2 * tile_bytes) {
    const ActivationRow* first = rows + i * kTileTokens;
    const int count = tokens - i * kTileTokens;
    TokenTile& tile = scratch.tokens[i];
    if (count >= kTileTokens) {
      tile = {first->high, first->low, first[1].high - first->high};
      if (evenly_spaced(first, tile.stride)) continue;
    }
    const int present = count < kTileTokens ? count : kTileTokens;
    gather(first, &ActivationRow::high, present, columns, memory);
    if (first->low != nullptr) gather(first, &ActivationRow::low, present, columns, memory + tile_bytes);
    tile = {memory, memory + tile_bytes, columns};
  }
}

// One step: 16 tokens by kBlocks x 16 rows, and either two groups of one term or one group of two terms.
template <bool kExact, int kBlocks>
struct TileStep {
  static constexpr int kGroups = kExact ? 1 : 2;

  // Tile 2b + i sums block b's i-th group, or its i-th term. `both`: there is a second group.
  template <class Tiles>
  LILY_INLINE void multiply(Tiles& tiles, const TokenTile& tokens, const Scratch& scratch, int slice,
                            int group, bool both) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(slice + group) * kGroup;
    tiles.template load<4>(tokens.high + at, tokens.stride);
    if constexpr (kExact) {
      tiles.template load<5>(tokens.low + at, tokens.stride);
    } else if (both) {
      tiles.template load<5>(tokens.high + at + kGroup, tokens.stride);
    }
    multiply_block<0>(tiles, scratch.codes[0][group], both);
    if constexpr (kBlocks == 2) multiply_block<1>(tiles, scratch.codes[1][group], both);
  }

  template <int kBlock, class Tiles>
  LILY_INLINE void multiply_block(Tiles& tiles, const std::byte* codes, bool both) {
    constexpr int kFirst = 2 * kBlock, kSecond = 2 * kBlock + 1;
    tiles.template load<6>(codes, 64);
    tiles.template zero<kFirst>();
    tiles.template dot<kFirst, 4, 6>();
    if constexpr (kExact) {
      tiles.template zero<kSecond>();
      tiles.template dot<kSecond, 5, 6>();
    } else if (both) {
      tiles.template load<7>(codes + kTileBytes, 64);
      tiles.template zero<kSecond>();
      tiles.template dot<kSecond, 5, 7>();
    }
  }

  template <class Tiles>
  LILY_INLINE void store(const Tiles& tiles, Scratch& scratch) {
    tiles.template store<0>(scratch.sums[0]);
    tiles.template store<1>(scratch.sums[1]);
    if constexpr (kBlocks == 2) {
      tiles.template store<2>(scratch.sums[2]);
      tiles.template store<3>(scratch.sums[3]);
    }
  }

  // results += affine formula of the step's sums, for `count` tokens; `group` counts from the matrix's first.
  LILY_INLINE void scale(const std::int32_t (*sums)[kTileTokens][kLanes], const std::byte* data,
                         std::size_t block_bytes, std::size_t group_bytes, const ActivationRow* rows,
                         int count, int group, bool both, float (*results)[kPanelBlocks][kLanes]) {
    F scales[kGroups][kBlocks], biases[kGroups][kBlocks];
    for (int j = 0; j < kGroups; ++j) {
      for (int b = 0; b < kBlocks; ++b) {
        // Without a second group the first is read again and not used.
        const int at = both ? group + j : group;
        const auto* affine =
            reinterpret_cast<const std::uint16_t*>(data + static_cast<std::size_t>(b) * block_bytes +
                                                   static_cast<std::size_t>(at + 1) * group_bytes - 64);
        scales[j][b] = Simd::load_bf16(affine);
        biases[j][b] = Simd::load_bf16(affine + kLanes);
      }
    }
    for (int t = 0; t < count; ++t) {
      F result[kBlocks];
      for (int b = 0; b < kBlocks; ++b) result[b] = Simd::load(results[t][b]);
#pragma GCC unroll 2
      for (int j = 0; j < kGroups; ++j) {
        if (j == 1 && !both) break;
        const F step = Simd::set1(rows[t].scales[group + j]), total = Simd::set1(rows[t].sums[group + j]);
#pragma GCC unroll 2
        for (int b = 0; b < kBlocks; ++b) {
          I sum;
          std::memcpy(&sum, sums[2 * b + j][t], sizeof sum);
          if constexpr (kExact) {
            I low;
            std::memcpy(&low, sums[2 * b + 1][t], sizeof low);
            sum = Simd::iadd(Simd::template shift_left<8>(sum), low);
          }
          const F product = Simd::mul(Simd::to_float(sum), step);
          result[b] = Simd::fma(product, scales[j][b], result[b]);
          result[b] = Simd::fma(biases[j][b], total, result[b]);
        }
      }
      for (int b = 0; b < kBlocks; ++b) Simd::store(results[t][b], result[b]);
    }
  }
};

// kBlocks blocks from `data` on by up to kPanelTokens tokens, whose rows find_tokens has found.
template <bool kExact, int kBlocks, class Tiles>
void panel(Tiles& tiles, const PackedMatrix& matrix, const std::byte* data, const ActivationRow* rows,
           int tokens, Scratch& scratch, float* out, std::ptrdiff_t stride) {
  using Step = TileStep<kExact, kBlocks>;
  const std::size_t block_bytes = matrix.block_bytes(), group_bytes = matrix.group_bytes();
  for (int t = 0; t < tokens; ++t) {
    for (int b = 0; b < kBlocks; ++b) Simd::store(scratch.results[t][b], Simd::zero());
  }
  for (int slice = 0; slice < matrix.groups; slice += kSliceGroups) {
    const int groups = matrix.groups - slice < kSliceGroups ? matrix.groups - slice : kSliceGroups;
    for (int b = 0; b < kBlocks; ++b) {
      for (int g = 0; g < groups; ++g) {
        unpack(data + static_cast<std::size_t>(b) * block_bytes +
                   static_cast<std::size_t>(slice + g) * group_bytes,
               matrix.planes, scratch.codes[b][g]);
      }
    }
    const int steps_per_tile = (groups + Step::kGroups - 1) / Step::kGroups;
    const int steps = (tokens + kTileTokens - 1) / kTileTokens * steps_per_tile;
    // The tiles multiply a step while the sums of the step before it are scaled. They are stored only then:
    // every load behind a store in flight to the same place in a page would wait for it, and four tiles fill
    // a page.
    for (int i = 0; i <= steps; ++i) {
      if (i < steps) {
        const int group = i % steps_per_tile * Step::kGroups;
        Step::multiply(tiles, scratch.tokens[i / steps_per_tile], scratch, slice, group,
                       group + Step::kGroups <= groups);
      }
      if (i > 0) {
        const int group = (i - 1) % steps_per_tile * Step::kGroups;
        const int first = (i - 1) / steps_per_tile * kTileTokens;
        const int count = tokens - first < kTileTokens ? tokens - first : kTileTokens;
        Step::scale(scratch.sums, data, block_bytes, group_bytes, rows + first, count, slice + group,
                    group + Step::kGroups <= groups, scratch.results + first);
      }
      if (i < steps) Step::store(tiles, scratch);
    }
  }
  for (int t = 0; t < tokens; ++t) {
    for (int b = 0; b < kBlocks; ++b) {
      Simd::store(out + t * stride + b * kLanes, Simd::load(scratch.results[t][b]));
    }
  }
}

// Kernels::matmul.
template <class Tiles>
void matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens, float* out,
            std::ptrdiff_t stride) {
  const bool exact = rows[0].low != nullptr;
  Tiles tiles;
  Scratch scratch;
  for (int first = 0; first < tokens; first += kPanelTokens) {
    const int count = tokens - first < kPanelTokens ? tokens - first : kPanelTokens;
    find_tokens(rows + first, count, matrix.groups * kGroup, scratch);
    for (int block = begin; block < end; block += kPanelBlocks) {
      const std::byte* data = matrix.data + static_cast<std::size_t>(block) * matrix.block_bytes();
      const auto run = block + 1 < end ? (exact ? &panel<true, 2, Tiles> : &panel<false, 2, Tiles>)
                                       : (exact ? &panel<true, 1, Tiles> : &panel<false, 1, Tiles>);
      run(tiles, matrix, data, rows + first, count, scratch, out + first * stride + block * kLanes, stride);
    }
  }
}

}  // namespace tiled

}  // namespace
