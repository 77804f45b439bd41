// Where the test checkpoints and golden files are, and small helpers to compare rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <span>

namespace lily::testing {

inline const std::filesystem::path kData = LILY_TEST_DATA;
inline const std::filesystem::path kTinyQ4 = kData / "golden/tiny-q4";
inline const std::filesystem::path kTinyBf16 = std::filesystem::path(LILY_TEST_UNPACKED) / "golden/tiny-bf16";
inline const std::filesystem::path kMini = std::filesystem::path(LILY_SOURCE_DIR) / "models/lily-mini";
inline const std::filesystem::path kGoldenQ4 = kData / "golden/golden-q4.safetensors";
inline const std::filesystem::path kGoldenBf16 = kData / "golden/golden-bf16.safetensors";
inline const std::filesystem::path kGoldenMini = kData / "golden/golden-mini-q4.safetensors";

// Largest |a - b|; infinite when sizes differ or either holds a NaN.
inline double max_abs_difference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return INFINITY;
    largest = std::max(largest, difference);
  }
  return largest;
}

inline int argmax(std::span<const float> row) {
  return static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
}

// Row `index` of a stored [rows, width] tensor.
template <class Values>
std::span<const float> row_of(const Values& values, std::size_t index, std::size_t width) {
  return std::span<const float>(values).subspan(index * width, width);
}

}  // namespace lily::testing
