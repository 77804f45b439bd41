// The products on tiles with the tiles in plain C++, made of different vector instructions.
#pragma once

#include "backend/cpu/kernels.hpp"

namespace lily::cpu::testing {

// Kernels::quantize, matmul and matmul_past_cache for rows of one format.
struct TileProducts {
  const char* name;
  void (*quantize)(const float* x, int columns, const ActivationRow& row);
  decltype(Kernels::matmul) matmul, matmul_past_cache;
};

// For rows in bf16.
TileProducts plain_tile_products();
// Null where the machine lacks AVX-512 or its conversions to bf16.
const TileProducts* avx512_tile_products();

// For wide rows; null where the machine lacks AVX-512.
TileProducts plain_wide_products();
const TileProducts* avx512_wide_products();

}  // namespace lily::cpu::testing
