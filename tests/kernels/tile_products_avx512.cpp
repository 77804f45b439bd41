// Operands made with AVX-512, tiles in plain C++: all of the AMX kernel but the instructions of its tiles.
// Compiled with flags of its own, so nothing here may be shared with other files.
#include "kernels/tile_products.hpp"

#if defined(__x86_64__)
#include "backend/cpu/body/tile_matmul.hpp"
#include "backend/cpu/body/wide_matmul.hpp"
#include "backend/cpu/simd/avx512_wide_words.hpp"
#include "backend/cpu/simd/avx512_words.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
#endif

namespace lily::cpu::testing {

std::vector<TileProducts> avx512_tile_products() {
  std::vector<TileProducts> all;
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl") ||
      !__builtin_cpu_supports("avx512bf16")) {
    return all;
  }
  all.push_back({"wide_avx512", RowFormat::wide, &wide::round_row<Avx512WideWords>,
                 &wide::matmul<PlainTiles, Avx512WideWords, false>,
                 &wide::matmul<PlainTiles, Avx512WideWords, true>,
                 &wide::matmul_to_halves<PlainTiles, Avx512WideWords>});
  all.push_back({"bf16_avx512", RowFormat::bf16, &tiled::round_row<Avx512Words>,
                 &tiled::matmul<PlainTiles, Avx512Words, false>,
                 &tiled::matmul<PlainTiles, Avx512Words, true>});
#endif
  return all;
}

}  // namespace lily::cpu::testing
