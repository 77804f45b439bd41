// A random affine matrix as a checkpoint stores it, as kernels read it, and as numbers.
#pragma once

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "backend/gpu/weight_blocks.hpp"
#include "backend/gpu/weight_guard.hpp"
#include "base/bf16.hpp"

namespace lily::gpu {

class AffineMatrix {
 public:
  // Weights go up to about `magnitude`.
  AffineMatrix(int rows, AffineFormat format, std::uint32_t seed, float magnitude = 1)
      : rows_(rows),
        format_(format),
        codes_(static_cast<std::size_t>(rows) * words()),
        scales_(static_cast<std::size_t>(rows) * groups()),
        biases_(scales_.size()) {
    std::mt19937 random(seed);
    for (std::uint32_t& word : codes_) word = static_cast<std::uint32_t>(random());
    std::uniform_real_distribution<float> size(0.5F, 1.5F);
    const int codes = 1 << format.bits;
    for (std::size_t i = 0; i < scales_.size(); ++i) {
      const float scale =
          (random() % 2 == 0 ? magnitude : -magnitude) * size(random) / static_cast<float>(codes);
      scales_[i] = float_to_bf16(scale);
      biases_[i] = float_to_bf16(-scale * static_cast<float>(codes) / 2);
    }
  }

  int rows() const { return rows_; }
  int tiles() const { return (rows_ + 15) / 16; }
  const AffineFormat& format() const { return format_; }

  AffineRow row(int index) const {
    const auto i = static_cast<std::size_t>(index);
    return {codes_.data() + i * words(), scales_.data() + i * groups(), biases_.data() + i * groups()};
  }

  // [row tile][input block][plane], as kernels read it.
  std::vector<std::byte> packed() const {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tiles()) * format_.tile_bytes());
    for (int tile = 0; tile < tiles(); ++tile) {
      std::vector<AffineRow> rows;
      for (int i = tile * 16; i < std::min(rows_, tile * 16 + 16); ++i) rows.push_back(row(i));
      pack_tile(rows, format_, bytes.data() + static_cast<std::size_t>(tile) * format_.tile_bytes());
    }
    return bytes;
  }

  // Weights are code_part + bias.
  double code_part(int row_index, int column) const {
    const AffineRow r = row(row_index);
    const int per_word = 32 / format_.bits;
    const std::uint32_t code =
        r.codes[column / per_word] >> (format_.bits * (column % per_word)) & ((1U << format_.bits) - 1U);
    return static_cast<double>(bf16_to_float(r.scales[column / format_.group_size])) * code;
  }
  double bias(int row_index, int column) const {
    return bf16_to_float(row(row_index).biases[column / format_.group_size]);
  }

  float guard() const { return weight_guard(largest_weight(scales_, biases_, format_.bits)); }

  // A product in fp64, and how far fp32 sums over inputs in 16 bits may be from it.
  struct Product {
    double value = 0;
    double bound = 0;
  };
  Product multiply(int row_index, std::span<const double> x) const;
  // The same for weights rounded to halves and inputs that are halves.
  Product multiply_halves(int row_index, std::span<const double> x) const;

 private:
  std::size_t words() const { return static_cast<std::size_t>(format_.columns * format_.bits / 32); }
  std::size_t groups() const { return static_cast<std::size_t>(format_.columns / format_.group_size); }

  int rows_;
  AffineFormat format_;
  std::vector<std::uint32_t> codes_;
  std::vector<std::uint16_t> scales_, biases_;
};

}  // namespace lily::gpu
