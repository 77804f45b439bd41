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
  int planes = 1;       // at least bits / 4; a plane more than needed is zero

  int blocks() const {
    constexpr int kInputs = WeightBlock::inputs;
    return (columns + kInputs - 1) / kInputs;
  }
  int parts() const { return blocks() * planes; }
  // Of one tile of 16 rows.
  std::size_t tile_bytes() const { return static_cast<std::size_t>(parts()) * WeightBlock::bytes; }
};

// Writes one tile of up to 16 rows: [input block][plane].
void pack_tile(std::span<const AffineRow> rows, const AffineFormat& format, std::byte* out);

}  // namespace lily::gpu
