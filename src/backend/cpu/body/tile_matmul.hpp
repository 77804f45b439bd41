// Packed codes times many activation rows on matrix tiles, over any Simd and any Tiles.
//
// A class of Tiles has eight tiles of 16 rows x 64 bytes, numbered at compile time:
//   zero<t>()             t = 0
//   load<t>(p, stride)    row r of t = 64 bytes at p + r * stride
//   store<t>(p)           the rows of t, one after the other, to p
//   dot<c, a, b>()        c[m][n] += sum_k a[m][k] * b[k / 4][4 n + k % 4], c int32, a int8, b uint8
//
// One group of 64 columns is one dot of depth 64: 16 tokens by 16 matrix rows. An unpacked group of 16 rows
// already lies as b wants it (nibbles of chunk c are rows 2c and 2c + 1), activations in chunk order as a.
// Every sum is then scaled in vector registers by the very operations of body/matmul.hpp in their order, so
// that both give the same bits.
#pragma once

#include <type_traits>

#include "backend/cpu/body/tile_operands.hpp"

namespace {

namespace tiled {

using F = Simd::F;
using I = Simd::I;

// Memory asked for while the processor multiplies, into the second-level cache: some lines a step.
struct Fetch {
  const std::byte *next = nullptr, *end = nullptr;
  int lines = 0;

  LILY_INLINE void some(Fetch& fetch) {
    for (int i = 0; i < fetch.lines; ++i) __builtin_prefetch(fetch.next + i * 64, 0, 2);
    fetch.next += fetch.lines * 64;
    if (fetch.next >= fetch.end) fetch.lines = 0;
  }
};

// Up to four groups of a slice times tiles of tokens.
struct Job {
  int first_tile = 0, tiles = 0, blocks = 0;
  int slice = 0, first_group = 0;  // of the slice
  int groups = 0;
  bool first = false;  // of all: results begin at zero
};

// A job of tiles of which kRows tokens count. The steps of all tiles, blocks and groups are one sequence,
// whose stages are some steps apart, so that none waits for the one before it: codes of step i are loaded
// while step i - 1 is multiplied, the sums of step i - 2 are stored and those of step i - 4 scaled. The codes
// of a tile's tokens stay in registers for all blocks, because loading a tile takes half as long as
// multiplying it.
template <int kTerms, int kRows, class Tiles>
class Pipeline {
 public:
  static constexpr int kGroups = 4 / kTerms;

  LILY_INLINE void run(Tiles& tiles, Workspace& space, const Job& job, Fetch& fetch) {
    const int steps = job.tiles * job.blocks * kGroups;
    int load_tile = job.first_tile, load_block = 0, scale_tile = job.first_tile, scale_block = 0;
    float* results = space.results(scale_tile, 0);
    F result[kRows];
    load_results(job, results, result);
    const auto stages = [&](int i, auto turn) __attribute__((always_inline)) {
      // The group of each stage; every step takes one turn, also where the last slice has fewer groups.
      constexpr int kLoadGroup = decltype(turn)::value;
      constexpr int kMultiplyGroup = (kLoadGroup + 4 - kMultiply) % kGroups;
      constexpr int kStoreGroup = (kLoadGroup + 4 - kStore) % kGroups;
      constexpr int kScaleGroup = (kLoadGroup + 4 - kScale) % kGroups;
      if (i >= kMultiply && i < steps + kMultiply && kMultiplyGroup < job.groups)
        multiply<kMultiplyGroup>(tiles);
      if (i < steps) {
        if (kLoadGroup < job.groups) {
          if (load_block == 0) load_tokens<kLoadGroup>(tiles, space.tokens(load_tile), job);
          tiles.template load<kCodes<kLoadGroup>>(space.codes(load_block)[job.first_group + kLoadGroup], 64);
        }
        if (kLoadGroup == kGroups - 1 && ++load_block == job.blocks) {
          load_block = 0;
          ++load_tile;
        }
      }
      if (i >= kStore && i < steps + kStore && kStoreGroup < job.groups)
        store<kStoreGroup>(tiles, space, i - kStore);
      if (i >= kScale && i < steps + kScale) {
        Fetch::some(fetch);
        if (kScaleGroup < job.groups) {
          scale(space, i - kScale, space.token_factors(scale_tile, job.slice),
                space.row_factors(scale_block, job.first_group + kScaleGroup), job.first_group + kScaleGroup,
                result);
        }
        if (kScaleGroup == kGroups - 1) {
          store_results(result, results);
          if (++scale_block == job.blocks) {
            scale_block = 0;
            ++scale_tile;
          }
          if (scale_tile < job.first_tile + job.tiles) {
            results = space.results(scale_tile, scale_block);
            load_results(job, results, result);
          }
        }
      }
    };
    for (int i = 0; i < steps + kScale; i += kGroups) {
      stages(i, std::integral_constant<int, 0>{});
      stages(i + 1, std::integral_constant<int, 1>{});
      if constexpr (kGroups == 4) {
        stages(i + 2, std::integral_constant<int, 2>{});
        stages(i + 3, std::integral_constant<int, 3>{});
      }
    }
  }

 private:
  // Steps behind loading. Two terms take both registers of sums, which are stored at once.
  static constexpr int kMultiply = 1, kStore = kTerms == 1 ? 2 : 1, kScale = 4;

  LILY_INLINE void load_results(const Job& job, const float* results, F* result) {
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) result[t] = job.first ? Simd::zero() : Simd::load(results + t * kLanes);
  }
  LILY_INLINE void store_results(const F* result, float* results) {
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) Simd::store(results + t * kLanes, result[t]);
  }

  // The registers of a term's sums, of codes and of tokens.
  template <int kAt, int kTerm>
  static constexpr int kSums = kTerms == 1 ? kAt % 2 : kTerm;
  template <int kAt>
  static constexpr int kCodes = 2 + kAt % 2;
  template <int kAt, int kTerm>
  static constexpr int kTokens = 4 + (kAt * kTerms) + kTerm;

  template <int kAt>
  LILY_INLINE void load_tokens(Tiles& tiles, const TokenTile& tokens, const Job& job) {
    const std::ptrdiff_t column =
        static_cast<std::ptrdiff_t>(job.slice * kSliceGroups + job.first_group + kAt) * kGroup;
    tiles.template load<kTokens<kAt, 0>>(tokens.high + column, tokens.stride);
    if constexpr (kTerms == 2) tiles.template load<kTokens<kAt, 1>>(tokens.low + column, tokens.stride);
  }
  template <int kAt, int kTerm = 0>
  LILY_INLINE void multiply(Tiles& tiles) {
    tiles.template zero<kSums<kAt, kTerm>>();
    tiles.template dot<kSums<kAt, kTerm>, kTokens<kAt, kTerm>, kCodes<kAt>>();
    if constexpr (kTerm + 1 < kTerms) multiply<kAt, kTerm + 1>(tiles);
  }
  template <int kAt, int kTerm = 0>
  LILY_INLINE void store(Tiles& tiles, Workspace& space, int step) {
    tiles.template store<kSums<kAt, kTerm>>(sums<kTerm>(space, step));
    if constexpr (kTerm + 1 < kTerms) store<kAt, kTerm + 1>(tiles, space, step);
  }
  // One KiB on from where the codes of the step lie in their page.
  template <int kTerm>
  LILY_INLINE std::byte* sums(Workspace& space, int step) {
    return space.sums((step + 1) % 4 + 4 * kTerm);
  }

  // result += affine formula of a step's sums.
  LILY_INLINE void scale(Workspace& space, int step, const TokenFactors& tokens, const RowFactors& rows,
                         int group, F* result) {
    const F scales = Simd::load(rows.scales), biases = Simd::load(rows.biases);
    const std::byte *high = sums<0>(space, step), *low = sums<kTerms - 1>(space, step);
#pragma GCC unroll 16
    for (int t = 0; t < kRows; ++t) {
      I sum;
      std::memcpy(&sum, high + t * sizeof sum, sizeof sum);
      if constexpr (kTerms == 2) {
        I second;
        std::memcpy(&second, low + t * sizeof second, sizeof second);
        sum = Simd::iadd(Simd::template shift_left<8>(sum), second);
      }
      const F product = Simd::mul(Simd::to_float(sum), Simd::set1(tokens.scales[t][group]));
      result[t] = Simd::fma(product, scales, result[t]);
      result[t] = Simd::fma(biases, Simd::set1(tokens.sums[t][group]), result[t]);
    }
  }
};

template <int kTerms, int kRows, class Tiles>
void run_rows(Tiles& tiles, Workspace& space, Job job, int groups, Fetch& fetch) {
  constexpr int kMost = Pipeline<kTerms, kRows, Tiles>::kGroups;
  for (job.first_group = 0; job.first_group < groups; job.first_group += kMost) {
    job.groups = std::min(kMost, groups - job.first_group);
    job.first = job.slice == 0 && job.first_group == 0;
    Pipeline<kTerms, kRows, Tiles>::run(tiles, space, job, fetch);
  }
}

// A slice of `groups` groups by all tokens; of the last tile only as many rows as count, rounded up to four.
template <int kTerms, class Tiles>
void run_slice(Tiles& tiles, Workspace& space, int slice, int groups, int blocks, int tokens, Fetch& fetch) {
  const int rest = tokens % kTileTokens;
  Job job;
  job.slice = slice;
  job.blocks = blocks;
  job.tiles = tokens / kTileTokens + (rest > 12 ? 1 : 0);
  if (job.tiles > 0) run_rows<kTerms, 16>(tiles, space, job, groups, fetch);
  if (rest == 0 || rest > 12) return;
  job.first_tile = job.tiles;
  job.tiles = 1;
  if (rest > 8) {
    run_rows<kTerms, 12>(tiles, space, job, groups, fetch);
  } else if (rest > 4) {
    run_rows<kTerms, 8>(tiles, space, job, groups, fetch);
  } else {
    run_rows<kTerms, 4>(tiles, space, job, groups, fetch);
  }
}

// A panel of `blocks` blocks from `data` on by the tokens that `space` has taken.
template <int kTerms, class Tiles>
void multiply_panel(Tiles& tiles, Workspace& space, const PackedMatrix& matrix, const std::byte* data,
                    int blocks, int tokens, Fetch& fetch, float* out, std::ptrdiff_t stride) {
  for (int slice = 0; slice < slices_of(matrix.groups); ++slice) {
    const int first = slice * kSliceGroups, groups = std::min(kSliceGroups, matrix.groups - first);
    space.take_slice(data, matrix, blocks, first, groups);
    run_slice<kTerms>(tiles, space, slice, groups, blocks, tokens, fetch);
  }
  for (int t = 0; t < tokens; ++t) {
    for (int b = 0; b < blocks; ++b) {
      Simd::store(out + t * stride + b * kLanes,
                  Simd::load(space.results(t / kTileTokens, b) + t % kTileTokens * kLanes));
    }
  }
}

template <int kTerms, class Tiles>
void matmul_as(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
               float* out, std::ptrdiff_t stride) {
  Workspace space(matrix.groups, tokens, kTerms);
  Tiles tiles;
  for (int first = 0; first < tokens; first += kPanelTokens) {
    const int count = std::min(kPanelTokens, tokens - first);
    space.take_tokens(rows + first, count);
    for (int block = begin; block < end; block += kPanelBlocks) {
      const int blocks = std::min(kPanelBlocks, end - block);
      const std::byte* data = matrix.data + static_cast<std::size_t>(block) * matrix.block_bytes();
      Fetch fetch;
      if (const int next = std::min(kPanelBlocks, end - block - blocks); next > 0) {
        const int steps = (count + kTileTokens - 1) / kTileTokens * blocks * matrix.groups;
        fetch.next = data + static_cast<std::size_t>(blocks) * matrix.block_bytes();
        fetch.end = fetch.next + static_cast<std::size_t>(next) * matrix.block_bytes();
        fetch.lines = (static_cast<int>((fetch.end - fetch.next) / 64) + steps - 1) / steps;
      }
      multiply_panel<kTerms>(tiles, space, matrix, data, blocks, count, fetch,
                             out + first * stride + block * kLanes, stride);
    }
  }
}

// Kernels::matmul.
template <class Tiles>
void matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens, float* out,
            std::ptrdiff_t stride) {
  if (rows[0].low != nullptr) {
    matmul_as<2, Tiles>(matrix, begin, end, rows, tokens, out, stride);
  } else {
    matmul_as<1, Tiles>(matrix, begin, end, rows, tokens, out, stride);
  }
}

}  // namespace tiled

}  // namespace
