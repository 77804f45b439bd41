// The products on tiles with the tiles in plain C++, made of different vector instructions.
#pragma once

#include <vector>

#include "backend/cpu/kernels.hpp"

namespace lily::cpu::testing {

// Kernels::quantize, matmul and matmul_past_cache for rows of one format.
struct TileProducts {
  const char* name;
  RowFormat format;
  decltype(Kernels::quantize) quantize;
  decltype(Kernels::matmul) matmul, matmul_past_cache;
};

// For rows in bf16 and for wide ones.
std::vector<TileProducts> plain_tile_products();
// Those of the same that the machine's AVX-512 can make; for bf16 it needs conversions.
std::vector<TileProducts> avx512_tile_products();

}  // namespace lily::cpu::testing
