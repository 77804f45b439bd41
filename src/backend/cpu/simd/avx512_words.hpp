// Operands of bf16 tiles made with AVX-512: unpacking, rounding, transposing. The contract is in
// body/tile_operands.hpp.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

struct Avx512Words {
  struct alignas(64) Scratch {
    float scales[16], biases[16];
    std::byte tables[16][32];       // of each row: its group's values of codes 0 .. 15
    std::byte pieces[2][4][4][16];  // [half of the group][row % 4][row / 4]: codes of 32 columns
    std::byte low_pieces[2][4][4][16];
  };

  // 120 vector operations for 1,024 codes: a row's 32 codes are one load that repeats 16 bytes, a shift that
  // brings each code to the lowest bits of a word, and a look-up among the 16 values that they can have.
  // vpermw looks at no other bits, because both halves of its table are the same.
  static constexpr int kPieces = 8;
  template <int kPiece, class Unit>
  static inline __attribute__((always_inline)) void unpack(const Unit& unit, Scratch& scratch) {
    if constexpr (kPiece == 0) {
      _mm512_store_ps(scratch.scales, widen(unit.group + 512));
      _mm512_store_ps(scratch.biases, widen(unit.group + 544));
      gather_pieces(unit.group, scratch.pieces[0]);
    } else if constexpr (kPiece == 1) {
      gather_pieces(unit.group + 256, scratch.pieces[1]);
    } else if constexpr (kPiece < 4) {
      make_tables(scratch, (kPiece - 2) * 8);
    } else {
      look_up(scratch, (kPiece - 4) * 4, unit.first, unit.second);
    }
    come_back_from_memory();
  }
  template <class Unit>
  static void unpack_bytes(const Unit& unit, Scratch& scratch) {
    _mm512_store_ps(scratch.scales, widen(unit.group + 1024));
    _mm512_store_ps(scratch.biases, widen(unit.group + 1056));
    for (int half = 0; half < 2; ++half) {
      gather_pieces(unit.group + half * 256, scratch.pieces[half]);
      gather_pieces(unit.group + 512 + half * 256, scratch.low_pieces[half]);
    }
    join_planes(scratch, unit.first, unit.second);
  }

  template <int kQuarter, class Row>
  static inline __attribute__((always_inline)) void transpose(const Row& row, std::byte* out,
                                                              std::ptrdiff_t stride, int count,
                                                              bool past_cache) {
    const auto piece = [&](int r) __attribute__((always_inline)) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row(r) + 16 * kQuarter));
    };
    __m512i words[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      words[j] = _mm512_castsi128_si512(piece(j));
      words[j] = _mm512_inserti32x4(words[j], piece(4 + j), 1);
      words[j] = _mm512_inserti32x4(words[j], piece(8 + j), 2);
      words[j] = _mm512_inserti32x4(words[j], piece(12 + j), 3);
    }
    transpose_lanes(words);
    out += 4 * kQuarter * stride;
    if (past_cache) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        if (4 * kQuarter + j < count)
          _mm512_stream_si512(reinterpret_cast<__m512i*>(out + j * stride), words[j]);
      }
    } else {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        if (4 * kQuarter + j < count) _mm512_storeu_si512(out + j * stride, words[j]);
      }
    }
    come_back_from_memory();
  }
  static void fence() { _mm_sfence(); }

  static inline __attribute__((always_inline)) void round(const float* x, std::uint16_t* out) {
    alignas(64) static constexpr std::uint16_t kOrder[32] = {0,  4,  8,  12, 16, 20, 24, 28, 1,  5,  9,
                                                             13, 17, 21, 25, 29, 2,  6,  10, 14, 18, 22,
                                                             26, 30, 3,  7,  11, 15, 19, 23, 27, 31};
    const __m512i words = to_bf16(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16));
    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), words));
  }

 private:
  // What was stored is loaded again: as broadcasts, which only take a load. From registers the compiler would
  // take shuffles, whose unit is the busiest one.
  static inline __attribute__((always_inline)) void come_back_from_memory() {
    asm volatile("" : : : "memory");
  }

  static inline __attribute__((always_inline)) __m512 widen(const std::byte* bf16) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bf16));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }
  static inline __attribute__((always_inline)) __m512i to_bf16(__m512 low, __m512 high) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }

  // The 4 x 4 words of each lane of 16 bytes.
  static inline __attribute__((always_inline)) void transpose_lanes(__m512i* words) {
    const __m512i a = _mm512_unpacklo_epi32(words[0], words[1]);
    const __m512i b = _mm512_unpackhi_epi32(words[0], words[1]);
    const __m512i c = _mm512_unpacklo_epi32(words[2], words[3]);
    const __m512i d = _mm512_unpackhi_epi32(words[2], words[3]);
    words[0] = _mm512_unpacklo_epi64(a, c);
    words[1] = _mm512_unpackhi_epi64(a, c);
    words[2] = _mm512_unpacklo_epi64(b, d);
    words[3] = _mm512_unpackhi_epi64(b, d);
  }

  // Brings the words of four chunks that belong to one row together.
  static inline __attribute__((always_inline)) void gather_pieces(const std::byte* chunks,
                                                                  std::byte (*pieces)[4][16]) {
    __m512i words[4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) words[c] = _mm512_loadu_si512(chunks + c * 64);
    transpose_lanes(words);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) _mm512_store_si512(pieces[j], words[j]);
  }

  // Of eight rows.
  static inline __attribute__((always_inline)) void make_tables(Scratch& scratch, int row) {
    const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
    for (int r = row; r < row + 8; r += 2) {
      const __m512 even =
          _mm512_fmadd_ps(codes, _mm512_set1_ps(scratch.scales[r]), _mm512_set1_ps(scratch.biases[r]));
      const __m512 odd = _mm512_fmadd_ps(codes, _mm512_set1_ps(scratch.scales[r + 1]),
                                         _mm512_set1_ps(scratch.biases[r + 1]));
      _mm512_store_si512(scratch.tables[r], to_bf16(even, odd));
    }
  }
  // Of four rows.
  static inline __attribute__((always_inline)) void look_up(const Scratch& scratch, int row, std::byte* first,
                                                            std::byte* second) {
    const __m512i shifts = shifts_of_lanes();
#pragma GCC unroll 4
    for (int r = row; r < row + 4; ++r) {
      const __m512i table =
          _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(scratch.tables[r])));
      const __m512i left = spread(scratch.pieces[0][r % 4][r / 4], shifts);
      const __m512i right = spread(scratch.pieces[1][r % 4][r / 4], shifts);
      _mm512_store_si512(first + r * 64, _mm512_permutexvar_epi16(left, table));
      _mm512_store_si512(second + r * 64, _mm512_permutexvar_epi16(right, table));
    }
  }

  static inline __attribute__((always_inline)) __m512i shifts_of_lanes() {
    return _mm512_set_epi64(0x000c000c000c000c, 0x000c000c000c000c, 0x0008000800080008, 0x0008000800080008,
                            0x0004000400040004, 0x0004000400040004, 0, 0);
  }
  // Word 8 i + j: word j of the piece, shifted by 4 i bits.
  static inline __attribute__((always_inline)) __m512i spread(const std::byte* piece, __m512i shifts) {
    const __m512i words = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(piece)));
    return _mm512_srlv_epi16(words, shifts);
  }

  // 8-bit codes from two planes of 4 bits.
  static void join_planes(const Scratch& scratch, std::byte* first, std::byte* second) {
    const __m512i shifts = shifts_of_lanes(), mask = _mm512_set1_epi16(15);
    for (int r = 0; r < 16; ++r) {
      const __m512 scale = _mm512_set1_ps(scratch.scales[r]), bias = _mm512_set1_ps(scratch.biases[r]);
      for (int half = 0; half < 2; ++half) {
        const __m512i high = _mm512_and_si512(spread(scratch.pieces[half][r % 4][r / 4], shifts), mask);
        const __m512i low = _mm512_and_si512(spread(scratch.low_pieces[half][r % 4][r / 4], shifts), mask);
        const __m512i codes = _mm512_or_si512(_mm512_slli_epi16(high, 4), low);
        const __m512i even = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(codes));
        const __m512i odd = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(codes, 1));
        _mm512_store_si512((half == 0 ? first : second) + r * 64,
                           to_bf16(_mm512_fmadd_ps(_mm512_cvtepi32_ps(even), scale, bias),
                                   _mm512_fmadd_ps(_mm512_cvtepi32_ps(odd), scale, bias)));
      }
    }
  }
};

}  // namespace
