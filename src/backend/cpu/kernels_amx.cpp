// The CPU kernels for AMX: prefill on tiles, by default of bf16, in `fast` of 8-bit integers; `exact` prefill
// and decode as AVX-512.
#include "backend/cpu/amx_mixers.hpp"
#include "backend/cpu/body/tile_matmul.hpp"
#include "backend/cpu/body/wide_matmul.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/simd/amx_tiles.hpp"
#include "backend/cpu/simd/avx512_wide_words.hpp"
#include "backend/cpu/simd/avx512_words.hpp"

namespace lily::cpu {

namespace {

template <bool kPastCache>
void amx_matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                float* out, std::ptrdiff_t stride) {
  if (rows[0].bf16 != nullptr) {
    tiled::matmul<AmxTiles, Avx512Words, kPastCache>(matrix, begin, end, rows, tokens, out, stride);
  } else if (rows[0].wide()) {
    wide::matmul<AmxTiles, Avx512WideWords, kPastCache>(matrix, begin, end, rows, tokens, out, stride);
  } else {
    const Kernels& base = avx512_kernels();
    (kPastCache ? base.matmul_past_cache : base.matmul)(matrix, begin, end, rows, tokens, out, stride);
  }
}

void amx_quantize(const float* x, int columns, const ActivationRow& row) {
  if (row.bf16 != nullptr) {
    tiled::round_row<Avx512Words>(x, columns, row);
  } else if (row.wide()) {
    wide::round_row<Avx512WideWords>(x, columns, row);
  } else {
    avx512_kernels().quantize(x, columns, row);
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
    kernels.name = "amx";
    kernels.automatic_rows = RowFormat::bf16;
    kernels.fast_rows = RowFormat::wide;
    kernels.quantize = &amx_quantize;
    kernels.matmul = &amx_matmul<false>;
    kernels.matmul_past_cache = &amx_matmul<true>;
    kernels.matmul_to_halves = &wide::matmul_to_halves<AmxTiles, Avx512WideWords>;
    // 128 tokens an expert, not 16, and many blocks: unpacking is hidden behind the products of 64 tokens,
    // and tokens are brought into the order of tiles for each call.
    kernels.expert_chunk = 4096;
    kernels.expert_tokens = 256;
    kernels.blocks_at_once = 512;
    kernels.tokens_at_once = 256;
    kernels.delta_net_heads = &amx_delta_net_heads;
    kernels.delta_net_heads_fast = &amx_delta_net_heads_fast;
    kernels.attend_group = &amx_attend_group;
    kernels.integer_peak = &amx_integer_peak;
    return kernels;
  }();
  return kKernels;
}

}  // namespace lily::cpu
