// Repacking of the checkpoint's affine rows into blocks of 16 interleaved rows.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/kernels.hpp"

namespace lily::cpu {

// One row as the checkpoint stores it (docs/model.md, "Affine quantization").
struct AffineRow {
  const std::uint32_t* codes = nullptr;  // null: a row of zeros (padding)
  const std::uint16_t* scales = nullptr;
  const std::uint16_t* biases = nullptr;
};

// Writes one block (see PackedMatrix) of up to 16 rows with `groups` groups of 64 columns. `bits` is 4 or 8
// and needs planes >= bits / 4; a 4-bit row in two planes gets a zero high plane. `group_size` is 64, or 128,
// whose scales are written twice.
void pack_block(std::span<const AffineRow> rows, int groups, int bits, int group_size, int planes,
                std::byte* out);

}  // namespace lily::cpu
