// Packed matrices and quantized rows for tests that compare kernels with each other.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "backend/cpu/activations.hpp"
#include "base/bf16.hpp"

namespace lily::cpu::testing {

// A matrix of random codes with scales of both signs.
class RandomMatrix {
 public:
  RandomMatrix(int rows, int columns, int planes, unsigned seed = 1) {
    packed_ = {nullptr, rows, columns / kGroup, planes};
    bytes_.resize(packed_.bytes());
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::byte& byte : bytes_) byte = static_cast<std::byte>(random());
    for (std::size_t end = packed_.group_bytes(); end <= bytes_.size(); end += packed_.group_bytes()) {
      auto* affine = reinterpret_cast<std::uint16_t*>(bytes_.data() + end - 64);
      for (int r = 0; r < kLanes; ++r) {
        const float scale = 0.02F * normal(random);
        affine[r] = float_to_bf16(scale);
        affine[kLanes + r] = float_to_bf16(-7.5F * scale + 0.01F * normal(random));
      }
    }
    packed_.data = bytes_.data();
  }
  const PackedMatrix& packed() const { return packed_; }
  // One scale and bias everywhere.
  void set_affine(float scale, float bias) {
    for (std::size_t end = packed_.group_bytes(); end <= bytes_.size(); end += packed_.group_bytes()) {
      auto* affine = reinterpret_cast<std::uint16_t*>(bytes_.data() + end - 64);
      std::fill_n(affine, kLanes, float_to_bf16(scale));
      std::fill_n(affine + kLanes, kLanes, float_to_bf16(bias));
    }
  }

 private:
  std::vector<std::byte> bytes_;
  PackedMatrix packed_;
};

// Rows quantized by `kernels`, in order or scattered as the routing of experts scatters them.
class RandomRows {
 public:
  RandomRows(const Kernels& kernels, int tokens, int columns, bool exact, bool scattered = false)
      : memory_(tokens + 2, columns, exact) {
    std::mt19937 random(20261129);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(columns));
    for (int t = 0; t < tokens; ++t) {
      for (float& value : x) value = normal(random);
      // The second and the third of three change places: distances differ.
      const int place = scattered ? t + (t % 3 == 1 ? 1 : 0) - (t % 3 == 2 ? 1 : 0) : t;
      kernels.quantize(x.data(), columns, memory_[place]);
      rows_.push_back(memory_[place]);
    }
  }
  const ActivationRow* data() const { return rows_.data(); }

 private:
  ActivationRows memory_;
  std::vector<ActivationRow> rows_;
};

}  // namespace lily::cpu::testing
