// Repacking of the checkpoint's affine rows into the blocks that kernels read (dialect/weights.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// One row as the checkpoint stores it (docs/model.md, "Affine quantization").
struct AffineRow {
  const std::uint32_t* codes = nullptr;  // null: a row of zeros
  const std::uint16_t* scales = nullptr;
  const std::uint16_t* biases = nullptr;
};

struct AffineFormat {
  int columns = 0;      // a multiple of 64
  int bits = 4;         // 4 or 8
  int group_size = 64;  // 64 or 128
  int planes() const { return bits / 4; }
  int blocks() const {
    return (columns + static_cast<int>(WeightBlock::inputs) - 1) / static_cast<int>(WeightBlock::inputs);
  }
  // Of one tile of 16 rows.
  std::size_t tile_bytes() const {
    return static_cast<std::size_t>(blocks() * planes()) * WeightBlock::bytes;
  }
};

// Writes one tile of up to 16 rows: [input block][plane].
void pack_tile(std::span<const AffineRow> rows, const AffineFormat& format, std::byte* out);

}  // namespace lily::gpu
