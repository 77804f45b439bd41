// Encoding and decoding of affine groups; the formulas are in docs/model.md, "Affine quantization".
#include "checkpoint/affine.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/bf16.hpp"

namespace lily::checkpoint {
namespace {

// Checkpoints do not promise alignment, so 16-bit values are put together from bytes.
float load_bf16(std::span<const std::byte> bytes, std::size_t index) {
  const auto low = std::to_integer<unsigned>(bytes[2 * index]);
  const auto high = std::to_integer<unsigned>(bytes[2 * index + 1]);
  return bf16_to_float(static_cast<std::uint16_t>(low | (high << 8)));
}

struct Range {
  float low = 0;
  float high = 0;
};

// Eight running minima and maxima: one of each would be a chain that the compiler may not reorder.
Range range_of(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;  // divides every group size
  std::array<float, kLanes> low{};
  std::array<float, kLanes> high{};
  std::copy_n(values.begin(), kLanes, low.begin());
  high = low;
  for (std::size_t i = kLanes; i < values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      low[lane] = std::min(low[lane], values[i + lane]);
      high[lane] = std::max(high[lane], values[i + lane]);
    }
  }
  return {*std::min_element(low.begin(), low.end()), *std::max_element(high.begin(), high.end())};
}

}  // namespace

void decode_affine_row(std::span<const std::byte> codes, std::span<const std::byte> scales,
                       std::span<const std::byte> biases, int bits, int group_size, std::span<float> out) {
  const auto group = static_cast<std::size_t>(group_size);
  for (std::size_t begin = 0; begin < out.size(); begin += group) {
    const float scale = load_bf16(scales, begin / group);
    const float bias = load_bf16(biases, begin / group);
    const std::span<float> values = out.subspan(begin, group);
    if (bits == 8) {
      for (std::size_t i = 0; i < group; ++i) {
        values[i] = scale * static_cast<float>(codes[begin + i]) + bias;
      }
    } else {
      for (std::size_t i = 0; i < group; i += 2) {
        const auto pair = std::to_integer<unsigned>(codes[(begin + i) / 2]);
        values[i] = scale * static_cast<float>(pair & 15U) + bias;
        values[i + 1] = scale * static_cast<float>(pair >> 4) + bias;
      }
    }
  }
}

AffineGroup encode_affine_group(std::span<const float> values, int bits, std::span<std::uint8_t> codes) {
  constexpr float kSmallestScale = 1e-7F;  // keeps a constant group from dividing by zero
  const auto levels = static_cast<float>((1 << bits) - 1);
  const auto [low, high] = range_of(values);
  const bool minimum_is_larger = std::fabs(low) > std::fabs(high);
  const float magnitude = std::max((high - low) / levels, kSmallestScale);
  float scale = minimum_is_larger ? magnitude : -magnitude;
  float bias = minimum_is_larger ? low : high;
  const float code_of_zero = std::nearbyint(bias / scale);
  if (code_of_zero != 0) {
    scale = bias / code_of_zero;
  } else {
    bias = 0;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Adding 2^23 leaves no fraction bits, so the sum is rounded to even; clamping first keeps it exact.
    constexpr float kNoFraction = 8388608;
    const float code = std::min(std::max((values[i] - bias) / scale, 0.0F), levels) + kNoFraction;
    codes[i] = static_cast<std::uint8_t>(std::bit_cast<std::uint32_t>(code));
  }
  return {float_to_bf16(scale), float_to_bf16(bias)};
}

void pack_codes(std::span<const std::uint8_t> codes, int bits, std::span<std::byte> out) {
  if (bits == 8) {
    std::memcpy(out.data(), codes.data(), codes.size());
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(codes[2 * i] | (codes[2 * i + 1] << 4));
  }
}

}  // namespace lily::checkpoint
