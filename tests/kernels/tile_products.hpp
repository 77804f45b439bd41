// The products on tiles with the tiles in plain C++, made of different vector instructions.
#pragma once

#include <vector>

#include "backend/cpu/kernels.hpp"

namespace lily::cpu::testing {

// The kernels' functions of the same names for rows of one format.
struct TileProducts {
  const char* name;
  RowFormat format;
  decltype(Kernels::quantize) quantize;
  decltype(Kernels::matmul) matmul, matmul_past_cache;
  decltype(Kernels::matmul_to_halves) matmul_to_halves = nullptr;  // of wide rows
};

// For rows in bf16 and for wide ones.
std::vector<TileProducts> plain_tile_products();
// The same if the machine has AVX-512 with conversions to bf16, else none.
std::vector<TileProducts> avx512_tile_products();

}  // namespace lily::cpu::testing
