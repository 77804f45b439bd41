// MLX affine quantization of one group: w = scale * code + bias.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lily::checkpoint {

// Decodes one row. `codes` holds out.size() codes of `bits` (4 or 8), lowest bits of each little-endian word
// first, which for both widths means lowest column first in byte order. `scales` and `biases` hold one bf16
// per group. Exact fp32: one multiplication, one addition.
void decode_affine_row(std::span<const std::byte> codes, std::span<const std::byte> scales,
                       std::span<const std::byte> biases, int bits, int group_size, std::span<float> out);

struct AffineGroup {
  std::uint16_t scale = 0;  // bf16
  std::uint16_t bias = 0;   // bf16
};

// Encodes one group as MLX does on a CPU: the value of largest magnitude gets code 0 exactly, zero falls on a
// code where it can, and codes are chosen with the unrounded scale and bias. `codes` receives one code per
// value, not yet packed. Values must be finite, their number a multiple of 8.
AffineGroup encode_affine_group(std::span<const float> values, int bits, std::span<std::uint8_t> codes);

// Packs codes into bytes, lowest column in the lowest bits. codes.size() * bits must be 8 * out.size().
void pack_codes(std::span<const std::uint8_t> codes, int bits, std::span<std::byte> out);

}  // namespace lily::checkpoint
