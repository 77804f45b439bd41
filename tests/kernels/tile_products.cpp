// Operands and tiles in plain C++.
#include "kernels/tile_products.hpp"

#include "backend/cpu/body/tile_matmul.hpp"
#include "backend/cpu/body/wide_matmul.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
#include "backend/cpu/simd/plain_wide_words.hpp"
#include "backend/cpu/simd/plain_words.hpp"

namespace lily::cpu::testing {

std::vector<TileProducts> plain_tile_products() {
  return {{"bf16_plain", RowFormat::bf16, &tiled::round_row<PlainWords>,
           &tiled::matmul<PlainTiles, PlainWords, false>, &tiled::matmul<PlainTiles, PlainWords, true>},
          {"wide_plain", RowFormat::wide, &wide::round_row<PlainWideWords>,
           &wide::matmul<PlainTiles, PlainWideWords, false>, &wide::matmul<PlainTiles, PlainWideWords, true>,
           &wide::matmul_to_halves<PlainTiles, PlainWideWords>}};
}

}  // namespace lily::cpu::testing
