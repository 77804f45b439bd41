// Activations of a few tokens: one fp32 row per token.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lily::reference {

class Rows {
 public:
  Rows(int count, std::size_t width)
      : count_(count), width_(width), values_(static_cast<std::size_t>(count) * width) {}

  int count() const noexcept { return count_; }
  std::size_t width() const noexcept { return width_; }
  std::span<float> operator[](int row) noexcept {
    return {values_.data() + static_cast<std::size_t>(row) * width_, width_};
  }
  std::span<const float> operator[](int row) const noexcept {
    return {values_.data() + static_cast<std::size_t>(row) * width_, width_};
  }

 private:
  int count_;
  std::size_t width_;
  std::vector<float> values_;
};

}  // namespace lily::reference
