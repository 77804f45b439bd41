// The CPU kernels for AMX: prefill's matrix products in tiles of 8-bit integers, everything else as AVX-512.
#include "backend/cpu/amx_mixers.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/simd/amx_tiles.hpp"
#include "backend/cpu/simd/avx512.hpp"
// The body uses Simd, so it comes after it.
#include "backend/cpu/body/tile_matmul.hpp"

namespace lily::cpu {

namespace {

// Below this the products of a tile, which always has 16 tokens, and the unpacking of codes into memory cost
// more than vector registers do: 80 GOP/s against 150 with 4 tokens, 380 against 330 with 16.
constexpr int kFewestTokens = 12;

void amx_matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                float* out, std::ptrdiff_t stride) {
  if (tokens < kFewestTokens) {
    avx512_kernels().matmul(matrix, begin, end, rows, tokens, out, stride);
  } else {
    tiled::matmul<AmxTiles>(matrix, begin, end, rows, tokens, out, stride);
  }
}

double amx_integer_peak(std::int64_t rounds, std::int32_t* sink) {
  AmxTiles tiles;
  alignas(64) std::int32_t memory[16 * 16] = {};
  tiles.load<4>(memory, 64);
  tiles.load<5>(memory, 64);
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
  // A round of vector dot products takes some six cycles, four tiles take 64.
  const std::int64_t tile_rounds = rounds / 10;
  for (std::int64_t round = 0; round < tile_rounds; ++round) {
    tiles.dot<0, 4, 5>();
    tiles.dot<1, 4, 5>();
    tiles.dot<2, 4, 5>();
    tiles.dot<3, 4, 5>();
  }
  tiles.store<0>(memory);
  *sink = memory[0];
  return static_cast<double>(tile_rounds) * 4 * 16 * 16 * 64 * 2;
}

}  // namespace

const Kernels& amx_kernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = avx512_kernels();
    kernels.name = "amx-int8";
    kernels.matmul = &amx_matmul;
    // 64 tokens an expert, not 16: tiles multiply twice as fast when they use unpacked codes four times. And
    // many blocks, because tokens are brought into the order of the tiles for each call.
    kernels.expert_chunk = 2048;
    kernels.expert_tokens = 128;
    kernels.blocks_at_once = 64;
    kernels.delta_net_heads = &amx_delta_net_heads;
    kernels.attend_group = &amx_attend_group;
    kernels.integer_peak = &amx_integer_peak;
    return kernels;
  }();
  return kKernels;
}

}  // namespace lily::cpu
