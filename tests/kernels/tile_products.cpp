// Operands and tiles in plain C++.
#include "kernels/tile_products.hpp"

#include "backend/cpu/body/tile_matmul.hpp"
#include "backend/cpu/body/wide_matmul.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
#include "backend/cpu/simd/plain_wide_words.hpp"
#include "backend/cpu/simd/plain_words.hpp"

namespace lily::cpu::testing {

TileProducts plain_tile_products() {
  return {"plain", &tiled::round_row<PlainWords>, &tiled::matmul<PlainTiles, PlainWords, false>,
          &tiled::matmul<PlainTiles, PlainWords, true>};
}

TileProducts plain_wide_products() {
  return {"plain", &wide::round_row<PlainWideWords>, &wide::matmul<PlainTiles, PlainWideWords, false>,
          &wide::matmul<PlainTiles, PlainWideWords, true>};
}

}  // namespace lily::cpu::testing
