// Tiles in plain C++: what simd/amx_tiles.hpp does in hardware, so that body/tile_matmul.hpp is tested where
// the hardware is missing.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/bf16.hpp"

namespace {

class PlainTiles {
 public:
  template <int kTile>
  void zero() {
    std::memset(memory_[kTile], 0, sizeof memory_[kTile]);
  }
  template <int kTile>
  void load(const void* base, std::ptrdiff_t stride) {
    for (int r = 0; r < kRows; ++r) {
      std::memcpy(memory_[kTile] + r * kRowBytes, static_cast<const std::byte*>(base) + r * stride,
                  kRowBytes);
    }
  }
  template <int kTile>
  void load_once(const void* base, std::ptrdiff_t stride) {
    load<kTile>(base, stride);
  }
  template <int kTile>
  void store(void* base) const {
    std::memcpy(base, memory_[kTile], sizeof memory_[kTile]);
  }
  template <int kSum, int kLeft, int kRight>
  void dot() {
    std::int32_t sums[kRows][kLanes];
    std::int8_t left[kRows][kRowBytes], right[kRows][kRowBytes];
    std::memcpy(sums, memory_[kSum], sizeof sums);
    std::memcpy(left, memory_[kLeft], sizeof left);
    std::memcpy(right, memory_[kRight], sizeof right);
    for (int m = 0; m < kRows; ++m) {
      for (int n = 0; n < kLanes; ++n) {
        for (int k = 0; k < kRowBytes; ++k) sums[m][n] += left[m][k] * right[k / 4][4 * n + k % 4];
      }
    }
    std::memcpy(memory_[kSum], sums, sizeof sums);
  }
  // c[m][n] += sum_k a[m][k] * b[k / 2][2 n + k % 2]: even and odd k are summed apart, and denormal numbers
  // count as zero, as the instruction has it. A product of two bf16 is exact.
  template <int kSum, int kLeft, int kRight>
  void dot_bf16() {
    float sums[kRows][kLanes];
    std::uint16_t left[kRows][kRowBytes / 2], right[kRows][kRowBytes / 2];
    std::memcpy(sums, memory_[kSum], sizeof sums);
    std::memcpy(left, memory_[kLeft], sizeof left);
    std::memcpy(right, memory_[kRight], sizeof right);
    for (int m = 0; m < kRows; ++m) {
      float even[kLanes] = {}, odd[kLanes] = {};
      for (int k = 0; k < kRows; ++k) {
        const float a = flush(lily::bf16_to_float(left[m][2 * k]));
        const float b = flush(lily::bf16_to_float(left[m][2 * k + 1]));
        for (int n = 0; n < kLanes; ++n) {
          even[n] = flush(even[n] + flush(a * flush(lily::bf16_to_float(right[k][2 * n]))));
          odd[n] = flush(odd[n] + flush(b * flush(lily::bf16_to_float(right[k][2 * n + 1]))));
        }
      }
      for (int n = 0; n < kLanes; ++n) sums[m][n] = flush(flush(sums[m][n]) + flush(even[n] + odd[n]));
    }
    std::memcpy(memory_[kSum], sums, sizeof sums);
  }

 private:
  static float flush(float x) { return std::fabs(x) < FLT_MIN ? 0.0F : x; }

  static constexpr int kRows = 16, kLanes = 16, kRowBytes = 64;
  std::byte memory_[8][kRows * kRowBytes] = {};
};

}  // namespace
