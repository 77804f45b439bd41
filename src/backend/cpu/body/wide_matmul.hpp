// Packed codes times many rows of activations, both in 8 bits, on matrix tiles, over any Tiles and Words
// (body/wide_operands.hpp).
//
// A class of Tiles has eight tiles of 16 rows x 64 bytes, numbered at compile time:
//   zero<t>()             t = 0
//   load<t>(p, stride)    row r of t = 64 bytes at p + r * stride
//   load_once<t>(p, stride)
//                         the same, and it stays out of the nearest cache
//   store<t>(p)           the rows of t, one after the other, to p
//   dot<c, a, b>()        c[m][n] += sum_k a[m][k] * b[k / 4][4 n + k % 4], c int32, a and b int8
//
// Tokens are the left operand: their codes lie as they are, and so do the results. Sums are exact within a
// slice of columns, in which tokens and rows have one scale each, and are then scaled and added up in fp32 in
// the order of columns, whatever the number of tokens or their place among others.
#pragma once

#include <type_traits>

#include "backend/cpu/body/wide_operands.hpp"

namespace {

namespace wide {

template <class Tiles, class Words, class Result>
class Product {
 public:
  Product(const PackedMatrix& matrix, int begin, int end, int tokens, bool past_cache)
      : matrix_(matrix), begin_(begin), end_(end), past_cache_(past_cache), space_(matrix.groups, tokens) {}

  // Up to kPanelTokens tokens.
  void run(const ActivationRow* rows, int tokens, Result* out, std::ptrdiff_t stride) {
    space_.take(rows, tokens);
    forget();
    // The slices of all panels are one sequence; each is unpacked while the one before is multiplied.
    int turn = 0;
    unpack_later(begin_, 0, turn);
    unpacking_.finish();
    for (int block = begin_; block < end_; block += kPanelBlocks) {
      const int blocks = std::min(kPanelBlocks, end_ - block);
      for (int slice = 0; slice < space_.slices(); ++slice) {
        if (slice + 1 < space_.slices()) {
          unpack_later(block, slice + 1, turn + 1);
        } else if (block + blocks < end_) {
          unpack_later(block + blocks, 0, turn + 1);
        }
        if (blocks == 2) {
          multiply_slice<2>(slice, turn, tokens, out + block * kLanes, stride);
        } else {
          multiply_slice<1>(slice, turn, tokens, out + block * kLanes, stride);
        }
        unpacking_.finish();
        ++turn;
      }
    }
    settle();
  }

 private:
  // Those of a slice are needed until the product after the next, when those of the slice behind that are
  // there.
  float* scales(int turn) { return scales_[turn % 4]; }
  void unpack_later(int block, int slice, int turn) {
    unpacking_.begin(matrix_, matrix_.data + static_cast<std::size_t>(block) * matrix_.block_bytes(),
                     std::min(kPanelBlocks, end_ - block), slice * kWideGroups, space_.groups(slice),
                     space_.weights(turn % 2), scales(turn));
  }

  template <int kBlocks>
  void multiply_slice(int slice, int turn, int tokens, Result* out, std::ptrdiff_t stride) {
    const int tiles = (tokens + kTileTokens - 1) / kTileTokens;
    const bool last = slice == space_.slices() - 1;
    for (int tile = 0; tile < tiles; tile += 2) {
      const int count = std::min(2, tiles - tile), first = tile * kTileTokens;
      if (last && !past_cache_)
        ask_for_results<kBlocks>(out + first * stride, stride, std::min(2 * kTileTokens, tokens - first));
      const Operands operands{space_.weights(turn % 2), space_.tokens(slice, tile), space_.groups(slice)};
      if (kBlocks == kPanelBlocks && operands.groups == kWideGroups && unpacking_.in_pieces()) {
        multiply_full(operands, count, (tiles - tile + 1) / 2);
      } else {
        settle();
        count == 2 ? multiply_part<kBlocks, 2>(operands) : multiply_part<kBlocks, 1>(operands);
      }
      waiting_ = in_tiles_;
      in_tiles_ = {.memory = space_.sums(which_sums_),
                   .scales = scales(turn),
                   .token_scales = space_.token_scales(slice, tile),
                   .partial = space_.partial(tile),
                   .out = out + first * stride,
                   .stride = stride,
                   .tokens = tokens - first,
                   .token_tiles = count,
                   .blocks = kBlocks,
                   .first = slice == 0,
                   .last = last,
                   .past_cache = past_cache_};
      which_sums_ = 1 - which_sums_;
    }
  }

  // Results are written while the product after the next is computed; a line that is not in the nearest cache
  // by then costs 7 ns, because stores wait for each other (128 tokens of gate and up 1,561 GOP/s, 1,709).
  template <int kBlocks>
  static void ask_for_results(const Result* out, std::ptrdiff_t stride, int tokens) {
    constexpr int kLine = 64 / sizeof(Result);
    for (int t = 0; t < tokens; ++t) {
      for (int at = 0; at < kBlocks * kLanes; at += kLine) __builtin_prefetch(out + t * stride + at, 1, 3);
    }
  }

  struct Operands {
    const std::byte* weights;
    TokenTile tokens;
    int groups;
  };

  // All sums to where they go.
  void settle() {
    waiting_.scale();
    if (in_tiles_.token_tiles > 0) {
      store_sums<4>(in_tiles_.memory);
      in_tiles_.scale();
    }
    forget();
  }
  void forget() {
    waiting_ = in_tiles_ = {};
    in_tiles_.memory = space_.sums(1 - which_sums_);
  }

  // A whole slice of a whole panel by one or two tiles of tokens, `passes` before the next slice is needed.
  // What can be done beside its products is: storing the sums of the product before, scaling those of the one
  // before that, and unpacking a share of the next slice.
  void multiply_full(const Operands& operands, int token_tiles, int passes) {
    const int share = (unpacking_.left() + passes - 1) / passes;
    if (in_tiles_.token_tiles != token_tiles) settle();
    const bool scale = waiting_.token_tiles == token_tiles && waiting_.whole();
    if (!scale) waiting_.scale();
    if (token_tiles == 2) {
      scale ? multiply_full<2, true>(operands, share) : multiply_full<2, false>(operands, share);
    } else {
      scale ? multiply_full<1, true>(operands, share) : multiply_full<1, false>(operands, share);
    }
  }
  template <int kTokens, bool kScale>
  void multiply_full(const Operands& operands, int units) {
    if (units == 8 && unpacking_.left() == 8) {
      multiply<kTokens, kScale, 8>(operands);
    } else if (units > 2 && unpacking_.left() >= 4) {
      multiply<kTokens, kScale, 4>(operands);
    } else if (units > 0 && unpacking_.left() >= 2) {
      multiply<kTokens, kScale, 2>(operands);
    } else {
      multiply<kTokens, kScale, 0>(operands);
    }
  }

  // Tiles 0 to 3 are sums, 4 and 5 weights, 6 and 7 tokens. A product keeps the tile unit busy for 16 cycles,
  // in which vectors do their share: they are given it product by product, because few tile instructions are
  // in flight at a time. So are the stores of the product before, which wait for its last sums: in a row they
  // held up what is stored after them (128 tokens of gate and up 1,421 GOP/s, 1,561; mixer output 1,710,
  // 1,923). Tokens are loaded once in a slice; in the nearest cache they would push out what is written there
  // (824, 1,368).
  template <int kTokens, bool kScale, int kUnits>
  void multiply(const Operands& operands) {
    const std::byte* weights = operands.weights;
    TokenTile tokens = operands.tokens;
    const Sums<Words, Result> waiting = waiting_;
    std::byte* memory = in_tiles_.memory;
    const Unit* unit = unpacking_.next();
    step<kTokens, kScale, kUnits, true>(0, weights, tokens, unit, waiting, memory);
    for (int g = 1; g < kWideGroups; ++g) {
      weights += kPanelBlocks * kTileBytes;
      tokens.codes += tokens.group;
      step<kTokens, kScale, kUnits, false>(g, weights, tokens, unit, waiting, memory);
    }
    unpacking_.skip(kUnits);
  }
  template <int kTokens, bool kScale, int kUnits, bool kFirst>
  inline __attribute__((always_inline)) void step(int g, const std::byte* weights, const TokenTile& tokens,
                                                  const Unit* units, const Sums<Words, Result>& waiting,
                                                  std::byte* memory) {
    constexpr int kProducts = kPanelBlocks * kTokens;
    const auto beside = [&]<int kProduct>(std::integral_constant<int, kProduct>)
        __attribute__((always_inline)) {
      if constexpr (kScale) waiting.template scale_rows<kPanelBlocks, 2>(2 * (g * kProducts + kProduct));
      constexpr int kChunks = kUnits * kChunksPerGroup / kWideGroups / kProducts;
      if constexpr (kUnits >= kWideGroups) {
        constexpr int kPerStep = kUnits / kWideGroups, kFirstChunk = kProduct * kChunks;
        unpacking_.template chunks<kChunks>(units[g * kPerStep + kFirstChunk / kChunksPerGroup],
                                            kFirstChunk % kChunksPerGroup);
      } else if constexpr (kUnits > 0) {
        unpacking_.template chunks<kChunks>(units[g / 2], g % 2 * 4 + kProduct * kChunks);
      }
    };
    const auto begin = [&]<int kSum>(std::integral_constant<int, kSum>) __attribute__((always_inline)) {
      if constexpr (kFirst) {
        tiles_.template store<kSum>(memory + kSum * kTileBytes);
        tiles_.template zero<kSum>();
      }
    };
    tiles_.template load<4>(weights, 64);
    tiles_.template load_once<6>(tokens.codes, tokens.token);
    begin(std::integral_constant<int, 0>());
    tiles_.template dot<0, 6, 4>();
    beside(std::integral_constant<int, 0>());
    tiles_.template load<5>(weights + kTileBytes, 64);
    begin(std::integral_constant<int, 1>());
    tiles_.template dot<1, 6, 5>();
    beside(std::integral_constant<int, 1>());
    if constexpr (kTokens == 2) {
      tiles_.template load_once<7>(tokens.codes + tokens.tile, tokens.token);
      begin(std::integral_constant<int, 2>());
      tiles_.template dot<2, 7, 4>();
      beside(std::integral_constant<int, 2>());
      begin(std::integral_constant<int, 3>());
      tiles_.template dot<3, 7, 5>();
      beside(std::integral_constant<int, 3>());
    }
  }

  // What is not whole, with nothing beside.
  template <int kBlocks, int kTokens>
  void multiply_part(const Operands& operands) {
    const std::byte* weights = operands.weights;
    TokenTile tokens = operands.tokens;
    zero_sums<4>();
    for (int g = 0; g < operands.groups; ++g) {
      tiles_.template load<4>(weights, 64);
      tiles_.template load_once<6>(tokens.codes, tokens.token);
      tiles_.template dot<0, 6, 4>();
      if constexpr (kTokens == 2) {
        tiles_.template load_once<7>(tokens.codes + tokens.tile, tokens.token);
        tiles_.template dot<kPanelBlocks, 7, 4>();
      }
      if constexpr (kBlocks == 2) {
        tiles_.template load<5>(weights + kTileBytes, 64);
        tiles_.template dot<1, 6, 5>();
        if constexpr (kTokens == 2) tiles_.template dot<3, 7, 5>();
      }
      weights += kBlocks * kTileBytes;
      tokens.codes += tokens.group;
    }
  }
  template <int kCount>
  inline __attribute__((always_inline)) void zero_sums() {
    if constexpr (kCount > 0) {
      zero_sums<kCount - 1>();
      tiles_.template zero<kCount - 1>();
    }
  }
  template <int kCount>
  inline __attribute__((always_inline)) void store_sums(std::byte* sums) {
    if constexpr (kCount > 0) {
      store_sums<kCount - 1>(sums);
      tiles_.template store<kCount - 1>(sums + (kCount - 1) * kTileBytes);
    }
  }

  const PackedMatrix& matrix_;
  int begin_, end_;
  bool past_cache_;
  Workspace space_;
  Tiles tiles_;
  Unpacking<Words> unpacking_;
  Sums<Words, Result> waiting_;   // in memory, of the product before the last
  Sums<Words, Result> in_tiles_;  // of the last
  alignas(64) float scales_[4][kPanelBlocks * kLanes];
  int which_sums_ = 0;  // of the next product
};

template <class Tiles, class Words, class Result>
void multiply(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
              Result* out, std::ptrdiff_t stride, bool past_cache) {
  // Lines are written as a whole, from their beginning.
  past_cache = past_cache && lily::cpu::whole_lines(out + begin * kLanes, stride);
  Product<Tiles, Words, Result> product(matrix, begin, end, tokens, past_cache);
  for (int first = 0; first < tokens; first += kPanelTokens) {
    product.run(rows + first, std::min(kPanelTokens, tokens - first), out + first * stride, stride);
  }
  if (past_cache) Words::fence();
}

// Kernels::matmul for wide rows, and with kPastCache Kernels::matmul_past_cache.
template <class Tiles, class Words, bool kPastCache>
void matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens, float* out,
            std::ptrdiff_t stride) {
  multiply<Tiles, Words>(matrix, begin, end, rows, tokens, out, stride, kPastCache);
}

// Kernels::matmul_to_halves.
template <class Tiles, class Words>
void matmul_to_halves(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                      std::uint16_t* out, std::ptrdiff_t stride, bool past_cache) {
  multiply<Tiles, Words>(matrix, begin, end, rows, tokens, out, stride, past_cache);
}

// Kernels::quantize for a wide row.
template <class Words>
void round_row(const float* x, int columns, const ActivationRow& row) {
  for (int first = 0; first < columns; first += lily::cpu::kWideColumns) {
    row.scales[first / lily::cpu::kWideColumns] =
        Words::round(x + first, std::min(lily::cpu::kWideColumns, columns - first), row.high + first);
  }
}

}  // namespace wide

}  // namespace
