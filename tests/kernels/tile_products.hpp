// The products on tiles with the tiles in plain C++, made of different vector instructions.
#pragma once

#include "backend/cpu/kernels.hpp"

namespace lily::cpu::testing {

// Kernels::quantize and Kernels::matmul for rows in bf16.
struct TileProducts {
  const char* name;
  void (*quantize)(const float* x, int columns, const ActivationRow& row);
  void (*matmul)(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                 float* out, std::ptrdiff_t stride);
};

TileProducts plain_tile_products();
// Null where the machine lacks AVX-512 or its conversions to bf16.
const TileProducts* avx512_tile_products();

}  // namespace lily::cpu::testing
