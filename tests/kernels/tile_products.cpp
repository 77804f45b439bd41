// Operands and tiles in plain C++.
#include "kernels/tile_products.hpp"

#include "backend/cpu/body/tile_matmul.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
#include "backend/cpu/simd/plain_words.hpp"

namespace lily::cpu::testing {

TileProducts plain_tile_products() {
  return {"plain", &tiled::round_row<PlainWords>, &tiled::matmul<PlainTiles, PlainWords, false>,
          &tiled::matmul<PlainTiles, PlainWords, true>};
}

}  // namespace lily::cpu::testing
