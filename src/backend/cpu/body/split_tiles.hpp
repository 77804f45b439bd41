// Tiles of fp32 numbers as one or two bf16 terms, and their products, over any Simd and any Tiles.
//
// Two terms: x = high + low to 2^-17 of itself, and a product of two such tiles is three products of bf16
// (high x high, high x low, low x high), summed in fp32: right to some 2^-16, where one term each leaves
// 2^-9.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels.hpp"

namespace {

namespace tiled {

using F = Simd::F;
using I = Simd::I;
using Words = std::uint32_t __attribute__((vector_size(64)));

// The sums of a product, 16 rows of 16 floats.
constexpr int kTileFloats = 16 * 16;

// 16 rows of 16 words, a word a pair of bf16. As the left operand of a product, word j of a row holds its
// elements j and j + 16; as the right one, row j holds the rows j and j + 16. So neither needs its elements
// moved.
struct alignas(64) PairTile {
  std::uint32_t words[16][16];
};
struct SplitTile {
  PairTile high, low;
};

LILY_INLINE Words load_words(const std::uint32_t* p) {
  Words x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
LILY_INLINE void store_words(std::uint32_t* p, Words x) { std::memcpy(p, &x, sizeof x); }

// Its upper halves are x rounded to bf16.
LILY_INLINE Words round_to_half(F x) { return __builtin_bit_cast(Words, x) + 0x8000U; }
LILY_INLINE F upper_half(Words x) { return __builtin_bit_cast(F, x & 0xffff0000U); }
LILY_INLINE Words join_upper_halves(Words first, Words second) {
  return (first >> 16) | (second & 0xffff0000U);
}

// Row `row` of a tile: pairs of first and second.
LILY_INLINE void put_pair(F first, F second, PairTile& tile, int row) {
  store_words(tile.words[row], join_upper_halves(round_to_half(first), round_to_half(second)));
}
LILY_INLINE void put_pair(F first, F second, SplitTile& tile, int row) {
  const Words a = round_to_half(first), b = round_to_half(second);
  store_words(tile.high.words[row], join_upper_halves(a, b));
  put_pair(Simd::sub(first, upper_half(a)), Simd::sub(second, upper_half(b)), tile.low, row);
}

// The words of `from`, rows and columns exchanged. They may be the same.
LILY_INLINE void transpose(const PairTile& from, PairTile& to) {
  using Wide = std::uint64_t __attribute__((vector_size(64)));
  Words in[16], quads[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) in[i] = load_words(from.words[i]);
    // Rows 4 i to 4 i + 3: quads[4 i + c] has columns c, c + 4, c + 8, c + 12 of them.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    Wide pairs[4];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      const Words a = in[i + 2 * j], b = in[i + 2 * j + 1];
      pairs[2 * j] = __builtin_bit_cast(
          Wide, __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29));
      pairs[2 * j + 1] = __builtin_bit_cast(
          Wide, __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31));
    }
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      quads[i + 2 * j] = __builtin_bit_cast(
          Words, __builtin_shufflevector(pairs[j], pairs[2 + j], 0, 8, 2, 10, 4, 12, 6, 14));
      quads[i + 2 * j + 1] = __builtin_bit_cast(
          Words, __builtin_shufflevector(pairs[j], pairs[2 + j], 1, 9, 3, 11, 5, 13, 7, 15));
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const Wide a = __builtin_bit_cast(Wide, quads[c]), b = __builtin_bit_cast(Wide, quads[4 + c]);
    const Wide d = __builtin_bit_cast(Wide, quads[8 + c]), e = __builtin_bit_cast(Wide, quads[12 + c]);
    const Wide ab = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    const Wide de = __builtin_shufflevector(d, e, 0, 1, 2, 3, 8, 9, 10, 11);
    const Wide ab_end = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    const Wide de_end = __builtin_shufflevector(d, e, 4, 5, 6, 7, 12, 13, 14, 15);
    const auto put = [&](int row, Wide x) { std::memcpy(to.words[row], &x, sizeof x); };
    put(c, __builtin_shufflevector(ab, de, 0, 1, 4, 5, 8, 9, 12, 13));
    put(4 + c, __builtin_shufflevector(ab, de, 2, 3, 6, 7, 10, 11, 14, 15));
    put(8 + c, __builtin_shufflevector(ab_end, de_end, 0, 1, 4, 5, 8, 9, 12, 13));
    put(12 + c, __builtin_shufflevector(ab_end, de_end, 2, 3, 6, 7, 10, 11, 14, 15));
  }
}

LILY_INLINE void transpose(const SplitTile& from, SplitTile& to) {
  transpose(from.high, to.high);
  transpose(from.low, to.low);
}

enum class Once { neither, left, right };

// Four sums in tiles 0 to 3, [row of tiles][column of tiles], of products of two tiles by two. A sum is used
// again only after three others, because a product takes as long as 3.3 to end.
template <class Tiles>
struct FourSums {
  LILY_INLINE void zero(Tiles& tiles) {
    tiles.template zero<0>();
    tiles.template zero<1>();
    tiles.template zero<2>();
    tiles.template zero<3>();
  }
  // 16 x 16 floats each, rows 64 bytes apart.
  LILY_INLINE void load(Tiles& tiles, const float* s00, const float* s01, const float* s10,
                        const float* s11) {
    tiles.template load<0>(s00, 64);
    tiles.template load<1>(s01, 64);
    tiles.template load<2>(s10, 64);
    tiles.template load<3>(s11, 64);
  }
  LILY_INLINE void store(Tiles& tiles, float* s00, float* s01, float* s10, float* s11) {
    tiles.template store<0>(s00);
    tiles.template store<1>(s01);
    tiles.template store<2>(s10);
    tiles.template store<3>(s11);
  }
  // `kOnce`: the factor that is not needed again soon and stays out of the nearest cache.
  template <Once kOnce = Once::neither>
  LILY_INLINE void multiply(Tiles& tiles, const PairTile& left0, const PairTile& left1,
                            const PairTile& right0, const PairTile& right1) {
    load_factor<4, kOnce == Once::left>(tiles, left0);
    load_factor<6, kOnce == Once::right>(tiles, right0);
    load_factor<5, kOnce == Once::left>(tiles, left1);
    load_factor<7, kOnce == Once::right>(tiles, right1);
    dots(tiles);
  }
  template <Once kOnce = Once::neither>
  LILY_INLINE void multiply(Tiles& tiles, const SplitTile& left0, const SplitTile& left1,
                            const SplitTile& right0, const SplitTile& right1) {
    multiply<kOnce>(tiles, left0.high, left1.high, right0.low, right1.low);
    load_factor<6, kOnce == Once::right>(tiles, right0.high);
    load_factor<7, kOnce == Once::right>(tiles, right1.high);
    dots(tiles);
    load_factor<4, kOnce == Once::left>(tiles, left0.low);
    load_factor<5, kOnce == Once::left>(tiles, left1.low);
    dots(tiles);
  }

 private:
  template <int kTile, bool kOnce>
  LILY_INLINE void load_factor(Tiles& tiles, const PairTile& factor) {
    if constexpr (kOnce) {
      tiles.template load_once<kTile>(factor.words, 64);
    } else {
      tiles.template load<kTile>(factor.words, 64);
    }
  }
  LILY_INLINE void dots(Tiles& tiles) {
    tiles.template dot_bf16<0, 4, 6>();
    tiles.template dot_bf16<1, 4, 7>();
    tiles.template dot_bf16<2, 5, 6>();
    tiles.template dot_bf16<3, 5, 7>();
  }
};

}  // namespace tiled

}  // namespace
