// Operands of bf16 tiles made in plain C++: what simd/avx512_words.hpp is tested against.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/simd/plain_bf16.hpp"
#include "base/bf16.hpp"

namespace {

struct PlainWords {
  struct Scratch {};

  static constexpr int kPieces = 1;
  template <int kPiece, class Unit>
  static void unpack(const Unit& unit, Scratch& /*scratch*/) {
    unpack_planes(unit.group, 1, unit.first, unit.second);
  }
  template <class Unit>
  static void unpack_bytes(const Unit& unit, Scratch& /*scratch*/) {
    unpack_planes(unit.group, 2, unit.first, unit.second);
  }

  template <int kQuarter, class Row>
  static void transpose(const Row& row, std::byte* out, std::ptrdiff_t stride, int count,
                        bool /*past_cache*/) {
    for (int j = 4 * kQuarter; j < std::min(count, 4 * kQuarter + 4); ++j) {
      for (int i = 0; i < 16; ++i) std::memcpy(out + j * stride + 4 * i, row(i) + 4 * j, 4);
    }
  }

  static void fence() {}

  static void round(const float* x, std::uint16_t* out) {
    for (int c = 0; c < 32; ++c) out[place(c)] = plain_bf16(x[c]);
  }

 private:
  static void unpack_planes(const std::byte* group, int planes, std::byte* first, std::byte* second) {
    std::uint16_t affine[32];
    std::memcpy(affine, group + planes * 512, sizeof affine);
    for (int r = 0; r < 16; ++r) {
      for (int c = 0; c < 64; ++c) {
        int code = 0;
        for (int plane = 0; plane < planes; ++plane) {
          const int byte = static_cast<int>(group[plane * 512 + c / 8 * 64 + 4 * r + c % 8 / 2]);
          code = code * 16 + (c % 2 == 0 ? byte & 15 : byte >> 4);
        }
        const std::uint16_t value = plain_bf16(std::fma(
            static_cast<float>(code), lily::bf16_to_float(affine[r]), lily::bf16_to_float(affine[16 + r])));
        std::memcpy((c < 32 ? first : second) + 64 * r + 2 * place(c % 32), &value, sizeof value);
      }
    }
  }
  static constexpr int place(int column) { return 8 * (column % 4) + column / 4; }
};

}  // namespace
