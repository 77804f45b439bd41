// Packed codes times many rows of activations, both rounded to bf16, on matrix tiles, over any Tiles and
// Words (body/tile_operands.hpp).
//
// A class of Tiles has eight tiles of 16 rows x 64 bytes, numbered at compile time:
//   zero<t>()             t = 0
//   load<t>(p, stride)    row r of t = 64 bytes at p + r * stride
//   load_once<t>(p, stride)
//                         the same, and they stay out of the nearest cache
//   store<t>(p)           the rows of t, one after the other, to p
//   dot_bf16<c, a, b>()   c[m][n] += sum_k a[m][k] * b[k / 2][2 n + k % 2], c fp32, a and b bf16
//
// Weights are the left operand, because there a row's codes need no more than a table of its 16 values;
// tokens are the right one. Sums stay in tiles over a slice of columns, and wait in memory as fp32 for the
// next. They are added up in the order of columns, whatever the number of tokens or their place among others.
#pragma once

#include "backend/cpu/body/tile_operands.hpp"

namespace {

namespace tiled {

template <class Tiles, class Words>
class Product {
 public:
  Product(const PackedMatrix& matrix, int begin, int end, int tokens, bool past_cache)
      : matrix_(matrix), begin_(begin), end_(end), past_cache_(past_cache), space_(matrix.groups, tokens) {}

  // Up to kPanelTokens tokens.
  void run(const ActivationRow* rows, int tokens, float* out, std::ptrdiff_t stride) {
    space_.template gather<Words>(rows, tokens);
    token_tiles_ = (tokens + kTileTokens - 1) / kTileTokens;
    slice_groups_ = slice_groups(token_tiles_);
    units_per_group_ = token_tiles_ <= 2 ? 2 : 1;
    // The slices of all panels are one sequence; each is unpacked while the one before is multiplied.
    int buffer = 0;
    unpack_later(begin_, 0, buffer);
    finish_unpacking();
    for (int block = begin_; block < end_; block += kPanelBlocks) {
      const int blocks = std::min(kPanelBlocks, end_ - block);
      for (int first = 0; first < matrix_.groups; first += slice_groups_) {
        const int groups = std::min(slice_groups_, matrix_.groups - first);
        if (first + groups < matrix_.groups) {
          unpack_later(block, first + groups, 1 - buffer);
        } else if (block + blocks < end_) {
          unpack_later(block + blocks, 0, 1 - buffer);
        }
        if (blocks == 2) {
          multiply_slice<2>(space_.weights(buffer), first, groups);
        } else {
          multiply_slice<1>(space_.weights(buffer), first, groups);
        }
        finish_unpacking();
        buffer = 1 - buffer;
      }
      put_sums_away();
      write_results(blocks, tokens, out + block * kLanes, stride);
    }
  }

 private:
  void unpack_later(int block, int first_group, int buffer) {
    unpacking_.begin(matrix_, matrix_.data + static_cast<std::size_t>(block) * matrix_.block_bytes(),
                     std::min(kPanelBlocks, end_ - block), first_group,
                     std::min(slice_groups_, matrix_.groups - first_group), space_.weights(buffer));
  }
  void finish_unpacking() {
    while (unpacking_.left() > 0) {
      const Unit unit = unpacking_.take();
      if (unpacking_.planes() == 2) {
        Words::unpack_bytes(unit, scratch_);
      } else {
        unpack_pieces<0, Words::kPieces>(&unit);
      }
    }
  }
  // Pieces [kFirst, kEnd) of the units, one unit after the other.
  template <int kFirst, int kEnd>
  inline __attribute__((always_inline)) void unpack_pieces(const Unit* units) {
    if constexpr (kFirst < kEnd) {
      Words::template unpack<kFirst % Words::kPieces>(units[kFirst / Words::kPieces], scratch_);
      unpack_pieces<kFirst + 1, kEnd>(units);
    }
  }

  // All tiles of tokens, every second slice backwards: the sums of the last ones are still there.
  template <int kBlocks>
  void multiply_slice(const std::byte* weights, int first_group, int groups) {
    const int pairs = (token_tiles_ + 1) / 2;
    for (int i = 0; i < pairs; ++i) {
      const int tile = 2 * (first_group / slice_groups_ % 2 == 0 ? i : pairs - 1 - i);
      if (tile + 1 < token_tiles_) {
        multiply<kBlocks, 2>(weights, tile, first_group, groups);
      } else {
        multiply<kBlocks, 1>(weights, tile, first_group, groups);
      }
    }
  }

  // A slice of kBlocks blocks by kTokens tiles of tokens: tiles 0 to 3 are sums, 4 and 5 weights, 6 and 7
  // tokens. Tokens are needed once a slice; in the nearest cache they would push out the sums and what is
  // being unpacked (128 tokens of gate and up 822 GOP/s, past it 1,138; 256 tokens 835 and 1,188).
  template <int kBlocks, int kTokens>
  void multiply(const std::byte* weights, int tile, int first_group, int groups) {
    change_sums<kBlocks * kTokens>(space_.results(tile, kBlocks), first_group == 0);
    const std::byte* tokens = space_.tokens(tile, first_group);
    for (int g = 0; g < groups; ++g) {
      // As many units a group as finish in time: blocks of the next slice by passes over this one.
      const int units = unpacking_.planes() == 2 ? 0 : std::min(unpacking_.left(), units_per_group_);
      if (units == 0) {
        multiply_group<kBlocks, kTokens, 0>(weights, tokens);
      } else if (units == 1) {
        multiply_group<kBlocks, kTokens, 1>(weights, tokens);
      } else {
        multiply_group<kBlocks, kTokens, 2>(weights, tokens);
      }
      weights += kTilesPerGroup * kBlocks * kTileBytes;
      tokens += kTilesPerGroup * kTileBytes;
    }
  }

  // Two steps of 32 columns, with kUnits units unpacked meanwhile. A product keeps the tile unit busy for 16
  // cycles, in which vectors do a piece; a whole unit in a row leaves it idle, because few tile instructions
  // are in flight at a time (a step of four products 28 ns, a unit 36, one after the other 69; 64 tokens 828
  // GOP/s, 692 when units are unpacked apart, and from 128 on 3 % more).
  template <int kBlocks, int kTokens, int kUnits>
  void multiply_group(const std::byte* weights, const std::byte* tokens) {
    Unit units[std::max(kUnits, 1)];
#pragma GCC unroll 2
    for (int u = 0; u < kUnits; ++u) units[u] = unpacking_.take();
    multiply_step<kBlocks, kTokens, kUnits, 0>(weights, tokens, units);
    multiply_step<kBlocks, kTokens, kUnits, 1>(weights + kBlocks * kTileBytes, tokens + kTileBytes, units);
  }
  template <int kBlocks, int kTokens, int kUnits, int kStep>
  inline __attribute__((always_inline)) void multiply_step(const std::byte* weights, const std::byte* tokens,
                                                           const Unit* units) {
    constexpr int kSlots = kBlocks * kTokens * kTilesPerGroup, kSlot = kStep * kBlocks * kTokens;
    tiles_.template load<4>(weights, 64);
    tiles_.template load_once<6>(tokens, 64);
    tiles_.template dot_bf16<0, 4, 6>();
    unpack_share<kSlot, kSlots, kUnits>(units);
    if constexpr (kBlocks == 2) {
      tiles_.template load<5>(weights + kTileBytes, 64);
      tiles_.template dot_bf16<1, 5, 6>();
      unpack_share<kSlot + 1, kSlots, kUnits>(units);
    }
    if constexpr (kTokens == 2) {
      tiles_.template load_once<7>(tokens + space_.token_tile_bytes(), 64);
      tiles_.template dot_bf16<kBlocks, 4, 7>();
      unpack_share<kSlot + kBlocks, kSlots, kUnits>(units);
      if constexpr (kBlocks == 2) {
        tiles_.template dot_bf16<3, 5, 7>();
        unpack_share<kSlot + 3, kSlots, kUnits>(units);
      }
    }
  }
  // What product kSlot of kSlots hides.
  template <int kSlot, int kSlots, int kUnits>
  inline __attribute__((always_inline)) void unpack_share(const Unit* units) {
    constexpr int kAll = kUnits * Words::kPieces;
    unpack_pieces<kAll * kSlot / kSlots, kAll*(kSlot + 1) / kSlots>(units);
  }

  // Puts the sums that are in tiles away and brings kCount others, which begin at zero if `first`.
  template <int kCount>
  inline __attribute__((always_inline)) void change_sums(std::byte* results, bool first) {
    if (results == sums_of_) return;
    if (sums_ == kCount) {
      exchange_sums<0, kCount>(results, first);
    } else {
      put_sums_away();
      load_sums<0, kCount>(results, first);
    }
    sums_of_ = results;
    sums_ = kCount;
  }
  void put_sums_away() {
    if (sums_ == 4) store_sums<0, 4>();
    if (sums_ == 2) store_sums<0, 2>();
    if (sums_ == 1) store_sums<0, 1>();
    sums_of_ = nullptr;
    sums_ = 0;
  }
  template <int kTile, int kCount>
  inline __attribute__((always_inline)) void exchange_sums(const std::byte* results, bool first) {
    if constexpr (kTile < kCount) {
      store_sums<kTile, kTile + 1>();
      load_sums<kTile, kTile + 1>(results, first);
      exchange_sums<kTile + 1, kCount>(results, first);
    }
  }
  template <int kTile, int kCount>
  inline __attribute__((always_inline)) void load_sums(const std::byte* results, bool first) {
    if constexpr (kTile < kCount) {
      if (first) {
        tiles_.template zero<kTile>();
      } else {
        tiles_.template load<kTile>(results + kTile * kTileBytes, 64);
      }
      load_sums<kTile + 1, kCount>(results, first);
    }
  }
  template <int kTile, int kCount>
  inline __attribute__((always_inline)) void store_sums() {
    if constexpr (kTile < kCount) {
      tiles_.template store<kTile>(sums_of_ + kTile * kTileBytes);
      store_sums<kTile + 1, kCount>();
    }
  }

  // From [16 rows][16 tokens] to rows of tokens. To do this too beside the next panel's products was no
  // faster.
  void write_results(int blocks, int tokens, float* out, std::ptrdiff_t stride) {
    const auto bytes = static_cast<std::ptrdiff_t>(sizeof(float));
    for (int first = 0; first < tokens; first += kTileTokens) {
      for (int b = 0; b < blocks; ++b) {
        const std::byte* results = space_.results(first / kTileTokens, blocks) + b * kTileBytes;
        const auto row = [&](int r) __attribute__((always_inline)) { return results + r * 64; };
        transpose_all<Words>(row, reinterpret_cast<std::byte*>(out + first * stride + b * kLanes),
                             stride * bytes, tokens - first, past_cache_);
      }
    }
  }

  const PackedMatrix& matrix_;
  int begin_, end_;
  bool past_cache_;
  Workspace space_;
  Tiles tiles_;
  Unpacking unpacking_;
  typename Words::Scratch scratch_;
  int token_tiles_ = 0, slice_groups_ = kMostSliceGroups, units_per_group_ = 1;
  std::byte* sums_of_ = nullptr;  // results whose sums are in tiles
  int sums_ = 0;                  // how many
};

// Kernels::matmul for rows in bf16, and with kPastCache Kernels::matmul_past_cache.
template <class Tiles, class Words, bool kPastCache>
void matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens, float* out,
            std::ptrdiff_t stride) {
  const bool past_cache = kPastCache && lily::cpu::whole_lines(out, stride);
  Product<Tiles, Words> product(matrix, begin, end, tokens, past_cache);
  for (int first = 0; first < tokens; first += kPanelTokens) {
    product.run(rows + first, std::min(kPanelTokens, tokens - first), out + first * stride, stride);
  }
  if (past_cache) Words::fence();
}

// Kernels::quantize for a row in bf16.
template <class Words>
void round_row(const float* x, int columns, const ActivationRow& row) {
  for (int c = 0; c < columns; c += kTileColumns) Words::round(x + c, row.bf16 + c);
}

}  // namespace tiled

}  // namespace
