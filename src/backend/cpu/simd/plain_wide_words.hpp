// Operands of 8-bit tiles made in plain C++: what simd/avx512_wide_words.hpp is tested against.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/cpu/simd/plain_bf16.hpp"
#include "base/bf16.hpp"

namespace {

struct PlainWideWords {
  template <class Factors>
  static void weigh(const std::byte* affine, std::size_t stride, int groups, int largest_code,
                    Factors* factors, int step, float* scales) {
    for (int r = 0; r < 16; ++r) {
      std::uint32_t largest = 0;
      for (int g = 0; g < groups; ++g) {
        const Affine of = affine_of(affine, stride, g, r);
        const float end = std::fma(of.scale, static_cast<float>(largest_code), of.bias);
        largest = std::max({largest, magnitude(of.bias), magnitude(end)});
      }
      const float size = std::bit_cast<float>(largest);
      scales[r] = size * (1.0F / 126);
      const float inverse = inverse_of(size, 126.0F * 256);
      for (int g = 0; g < groups; ++g) {
        const Affine of = affine_of(affine, stride, g, r);
        for (int i = 0; i < 2; ++i) {
          factors[g * step].multiplier[r][i] = static_cast<std::int16_t>(nearest(of.scale * inverse));
          factors[g * step].offset[r][i] =
              static_cast<std::int16_t>(nearest(std::fma(of.bias, inverse, 128.0F)));
        }
      }
    }
  }

  template <int kCount, class Factors>
  static void unpack(const std::byte* chunks, const Factors& factors, std::byte* tile) {
    for (int c = 0; c < kCount; ++c) {
      unpack_chunk(factors, tile + c * 128,
                   [&](int row, int column) { return code(chunks + c * 64, row, column); });
    }
  }
  template <class Factors>
  static void unpack_bytes(const std::byte* high, const std::byte* low, const Factors& factors,
                           std::byte* tile) {
    unpack_chunk(factors, tile,
                 [&](int row, int column) { return 16 * code(high, row, column) + code(low, row, column); });
  }

  static float round(const float* x, int columns, std::int8_t* codes) {
    std::uint32_t largest = 0;
    for (int c = 0; c < columns; ++c) largest = std::max(largest, magnitude(x[c]));
    const float size = std::bit_cast<float>(largest), inverse = inverse_of(size, 127);
    for (int c = 0; c < columns; ++c) {
      codes[c / 8 * 8 + place(c % 8)] = static_cast<std::int8_t>(nearest(x[c] * inverse));
    }
    return size * (1.0F / 127);
  }

  struct Lanes {
    float lane[16];
  };
  static Lanes load(const float* p) {
    Lanes lanes;
    std::memcpy(lanes.lane, p, sizeof lanes.lane);
    return lanes;
  }
  static Lanes add_scaled(const std::byte* sums, const Lanes& scales, float token_scale, const float* before,
                          bool first) {
    std::int32_t row[16];
    std::memcpy(row, sums, sizeof row);
    Lanes lanes;
    for (int r = 0; r < 16; ++r) {
      lanes.lane[r] =
          std::fma(static_cast<float>(row[r]), scales.lane[r] * token_scale, first ? 0.0F : before[r]);
    }
    return lanes;
  }
  template <bool kPastCache>
  static void put(float* to, const Lanes& lanes) {
    std::memcpy(to, lanes.lane, sizeof lanes.lane);
  }
  template <bool kPastCache>
  static void put(std::uint16_t* to, const Lanes& lanes) {
    for (int r = 0; r < 16; ++r) to[r] = plain_bf16(lanes.lane[r]);
  }
  template <bool kPastCache, class Result>
  static void put(Result* to, const Lanes& first, const Lanes& second) {
    put<kPastCache>(to, first);
    put<kPastCache>(to + 16, second);
  }
  static void fence() {}

 private:
  struct Affine {
    float scale, bias;
  };
  static Affine affine_of(const std::byte* affine, std::size_t stride, int group, int row) {
    std::uint16_t words[32];
    std::memcpy(words, affine + stride * static_cast<std::size_t>(group), sizeof words);
    return {lily::bf16_to_float(words[row]), lily::bf16_to_float(words[16 + row])};
  }
  // As an integer, so that what is not a number is the largest.
  static std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffU; }
  static float inverse_of(float size, float limit) { return size > 1e-30F ? limit / size : 0.0F; }
  // What is not finite has a scale that is not, whatever its code.
  static long nearest(float x) { return std::isfinite(x) ? std::lrint(x) : 0; }
  static int place(int column) {
    return column % 4 < 2 ? column % 4 + column / 4 * 2 : column % 4 + 2 + column / 4 * 2;
  }
  static int code(const std::byte* chunk, int row, int column) {
    const int byte = static_cast<int>(chunk[4 * row + column / 2]);
    return column % 2 == 0 ? byte & 15 : byte >> 4;
  }
  template <class Factors, class Code>
  static void unpack_chunk(const Factors& factors, std::byte* tile, const Code& code_of) {
    for (int r = 0; r < 16; ++r) {
      for (int c = 0; c < 8; ++c) {
        const int value = factors.multiplier[r][0] * code_of(r, c) + factors.offset[r][0];
        const int at = place(c);
        // As 16 bits: a multiplier of 8-bit codes alone may need one more.
        tile[at / 4 * 64 + 4 * r + at % 4] = static_cast<std::byte>(static_cast<std::uint16_t>(value) >> 8);
      }
    }
  }
};

}  // namespace
