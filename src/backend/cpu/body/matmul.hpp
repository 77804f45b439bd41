// Quantizing activations and multiplying packed codes with them, over any Simd.
#pragma once

#include <utility>

#include "backend/cpu/kernels.hpp"

namespace {

using lily::cpu::ActivationRow;
using lily::cpu::kGroup;
using lily::cpu::kLanes;
using lily::cpu::PackedMatrix;

using F = Simd::F;
using I = Simd::I;

constexpr int kChunksPerGroup = 8;
constexpr int kChunkUnroll = Simd::kChunkUnroll;
constexpr int kChunkBytes = 64;
constexpr int kPlaneBytes = kChunksPerGroup * kChunkBytes;

void quantize(const float* x, int columns, const ActivationRow& row) {
  const bool exact = row.low != nullptr;
  // Two terms reach 127 * 256 + 127.
  const float limit = exact ? 32639.0F : 127.0F;
  for (int g = 0; g < columns / kGroup; ++g) {
    const float* p = x + g * kGroup;
    F v[4], largest = Simd::zero(), poison = Simd::zero();
    for (int i = 0; i < 4; ++i) {
      v[i] = Simd::load(p + i * kLanes);
      largest = Simd::max(largest, Simd::abs(v[i]));
      poison = Simd::fma(v[i], Simd::zero(), poison);  // 0, or NaN when an element is not finite
    }
    const float magnitude = Simd::reduce_max(largest);
    const float scale = magnitude / limit + Simd::reduce_add(poison);
    // Below 1e-30 the reciprocal would overflow; such a group is zero at any precision that matters.
    const float inverse = magnitude > 1e-30F ? limit / magnitude : 0.0F;
    I total = Simd::izero();
    for (int i = 0; i < 4; ++i) {
      // The limit comes second: it replaces a NaN, so that sums of codes stay in range; the scale carries the
      // NaN.
      const I code = Simd::round(Simd::max(Simd::mul(v[i], Simd::set1(inverse)), Simd::set1(-limit)));
      total = Simd::iadd(total, code);
      const int at = g * kGroup + i * kLanes;
      if (exact) {
        const I high = Simd::shift_right<8>(Simd::iadd(code, Simd::iset1(128)));
        Simd::store_chunk_order(row.high + at, high);
        Simd::store_chunk_order(row.low + at, Simd::isub(code, Simd::shift_left<8>(high)));
      } else {
        Simd::store_chunk_order(row.high + at, code);
      }
    }
    row.scales[g] = scale;
    row.sums[g] = scale * static_cast<float>(Simd::ireduce_add(total));
  }
}

// Integer sums of products of one group: kBlocks x 16 rows by kTokens activation rows, one term.
template <int kBlocks, int kTokens>
struct GroupSums {
  Simd::Dots dots[kBlocks][kTokens];
  I wide[kBlocks][kTokens];

  LILY_INLINE void clear(GroupSums& sums) {
    for (int b = 0; b < kBlocks; ++b) {
      for (int t = 0; t < kTokens; ++t) {
        sums.dots[b][t] = Simd::dots_zero();
        if constexpr (Simd::kDotsNeedWidening) sums.wide[b][t] = Simd::izero();
      }
    }
  }
  // Moves 16-bit sums to 32 bits; after at most eight dots each.
  LILY_INLINE void spill(GroupSums& sums) {
    if constexpr (Simd::kDotsNeedWidening) {
      for (int b = 0; b < kBlocks; ++b) {
        for (int t = 0; t < kTokens; ++t) {
          sums.wide[b][t] = Simd::iadd(sums.wide[b][t], Simd::widen(sums.dots[b][t]));
          sums.dots[b][t] = Simd::dots_zero();
        }
      }
    }
  }
  LILY_INLINE I total(const GroupSums& sums, int b, int t) {
    if constexpr (Simd::kDotsNeedWidening) {
      return sums.wide[b][t];
    } else {
      return Simd::widen(sums.dots[b][t]);
    }
  }
  // Makes room for the low plane: sums of the high plane count 16 times.
  LILY_INLINE void shift_plane(GroupSums& sums) {
    for (int b = 0; b < kBlocks; ++b) {
      for (int t = 0; t < kTokens; ++t) {
        if constexpr (Simd::kDotsNeedWidening) {
          sums.wide[b][t] = Simd::template shift_left<4>(sums.wide[b][t]);
        } else {
          sums.dots[b][t] = Simd::template shift_left<4>(sums.dots[b][t]);
        }
      }
    }
  }
};

// Whether an instruction set can write past the caches.
template <class S>
constexpr bool kStoresPastCache = requires(float* p, typename S::F x) {
  S::store_past_cache(p, x);
};
template <class S>
LILY_INLINE void put(float* p, typename S::F x, bool past_cache) {
  if constexpr (kStoresPastCache<S>) {
    if (past_cache) return S::store_past_cache(p, x);
  }
  S::store(p, x);
}
template <class S>
LILY_INLINE void finish_stores() {
  if constexpr (kStoresPastCache<S>) S::fence();
}

// Even and odd columns of a chunk of 8-bit codes, from its two planes.
template <class S>
LILY_INLINE void load_joined(const std::byte* high_plane, typename S::Codes& even, typename S::Codes& odd) {
  const typename S::Codes high = S::load_codes(high_plane), low = S::load_codes(high_plane + kPlaneBytes);
  even = S::join_low_nibbles(high, low);
  odd = S::join_high_nibbles(high, low);
}

// The register tile: kBlocks blocks of 16 rows times kTokens activation rows over all groups. With
// `fetch_next` the kBlocks blocks behind these are asked for meanwhile, into the second-level cache: they
// come from memory while the processor multiplies. An expert's 16 tokens take 11 % less time, 7 tokens 21 %
// (into the first-level cache it gains nothing).
template <int kBlocks, int kTokens, bool kExact, int kPlanes>
inline void tile(const std::byte* data, std::size_t block_bytes, int groups, bool fetch_next,
                 const ActivationRow* rows, float* out, std::ptrdiff_t stride, bool past_cache) {
  constexpr int kGroupBytes = kPlanes * kPlaneBytes + 64;
  // Whole bytes in one pass where they are multiplied without overflow, plane by plane elsewhere.
  constexpr bool kJoined = kPlanes == 2 && Simd::kByteDots;
  constexpr int kPasses = kJoined ? kPlanes / 2 : kPlanes;
  using Sums = GroupSums<kBlocks, kTokens>;
  F result[kBlocks][kTokens];
  for (int b = 0; b < kBlocks; ++b) {
    for (int t = 0; t < kTokens; ++t) result[b][t] = Simd::zero();
  }

  for (int g = 0; g < groups; ++g) {
    const std::byte* group = data + static_cast<std::size_t>(g) * kGroupBytes;
    if (fetch_next) {
      for (int b = 0; b < kBlocks; ++b) {
        const std::byte* next = group + static_cast<std::size_t>(kBlocks + b) * block_bytes;
#pragma GCC unroll 17
        for (int line = 0; line < kGroupBytes / 64; ++line) __builtin_prefetch(next + line * 64, 0, 2);
      }
    }
    Sums high, low;
    Sums::clear(high);
    if constexpr (kExact) Sums::clear(low);
#pragma GCC unroll 2
    for (int plane = 0; plane < kPasses; ++plane) {
      if (plane == 1) {
        Sums::shift_plane(high);
        if constexpr (kExact) Sums::shift_plane(low);
      }
#pragma GCC unroll kChunkUnroll
      for (int c = 0; c < kChunksPerGroup; ++c) {
        Simd::Codes even[kBlocks], odd[kBlocks];
#pragma GCC unroll 2
        for (int b = 0; b < kBlocks; ++b) {
          const std::byte* chunk =
              group + static_cast<std::size_t>(b) * block_bytes + plane * kPlaneBytes + c * kChunkBytes;
          if constexpr (kJoined) {
            load_joined<Simd>(chunk, even[b], odd[b]);
          } else {
            const Simd::Codes codes = Simd::load_codes(chunk);
            even[b] = Simd::low_nibbles(codes);
            odd[b] = Simd::high_nibbles(codes);
          }
        }
        const int at = g * kGroup + c * 8;
#pragma GCC unroll 8
        for (int t = 0; t < kTokens; ++t) {
          const Simd::Quad first = Simd::load_quad(rows[t].high + at);
          const Simd::Quad second = Simd::load_quad(rows[t].high + at + 4);
#pragma GCC unroll 2
          for (int b = 0; b < kBlocks; ++b) high.dots[b][t] = Simd::dot(high.dots[b][t], even[b], first);
#pragma GCC unroll 2
          for (int b = 0; b < kBlocks; ++b) high.dots[b][t] = Simd::dot(high.dots[b][t], odd[b], second);
          if constexpr (kExact) {
            const Simd::Quad low_first = Simd::load_quad(rows[t].low + at);
            const Simd::Quad low_second = Simd::load_quad(rows[t].low + at + 4);
#pragma GCC unroll 2
            for (int b = 0; b < kBlocks; ++b) low.dots[b][t] = Simd::dot(low.dots[b][t], even[b], low_first);
#pragma GCC unroll 2
            for (int b = 0; b < kBlocks; ++b) low.dots[b][t] = Simd::dot(low.dots[b][t], odd[b], low_second);
          }
        }
        if (c % 4 == 3) {
          Sums::spill(high);
          if constexpr (kExact) Sums::spill(low);
        }
      }
    }
#pragma GCC unroll 2
    for (int b = 0; b < kBlocks; ++b) {
      const auto* affine = reinterpret_cast<const std::uint16_t*>(
          group + static_cast<std::size_t>(b) * block_bytes + kPlanes * kPlaneBytes);
      const F scale = Simd::load_bf16(affine);
      const F bias = Simd::load_bf16(affine + kLanes);
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) {
        I sum = Sums::total(high, b, t);
        if constexpr (kExact) sum = Simd::iadd(Simd::template shift_left<8>(sum), Sums::total(low, b, t));
        const F product = Simd::mul(Simd::to_float(sum), Simd::set1(rows[t].scales[g]));
        result[b][t] = Simd::fma(product, scale, result[b][t]);
        result[b][t] = Simd::fma(bias, Simd::set1(rows[t].sums[g]), result[b][t]);
      }
    }
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int t = 0; t < kTokens; ++t) put<Simd>(out + t * stride + b * kLanes, result[b][t], past_cache);
  }
}

using Tile = void (*)(const std::byte*, std::size_t, int, bool, const ActivationRow*, float*, std::ptrdiff_t,
                      bool);

// tiles[n - 1] takes n tokens.
template <int kBlocks, bool kExact, int kPlanes, int... kIndex>
constexpr void fill_tiles(Tile* tiles, std::integer_sequence<int, kIndex...> /*unused*/) {
  ((tiles[kIndex] = &tile<kBlocks, kIndex + 1, kExact, kPlanes>), ...);
}

template <bool kExact, int kPlanes>
void matmul_as(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
               float* out, std::ptrdiff_t stride, bool past_cache) {
  static constexpr int kMost = kExact ? Simd::kTileTokensExact : Simd::kTileTokensFast;
  using Counts = std::make_integer_sequence<int, kMost>;
  static constexpr auto kTiles = [] {
    struct {
      Tile wide[kMost], narrow[kMost];
    } tiles{};
    fill_tiles<Simd::kTileBlocks, kExact, kPlanes>(tiles.wide, Counts{});
    fill_tiles<1, kExact, kPlanes>(tiles.narrow, Counts{});
    return tiles;
  }();

  const std::size_t block_bytes = matrix.block_bytes();
  for (int block = begin; block < end;) {
    // A single token waits for memory: one block after another keeps one stream.
    const bool wide = tokens > 1 && block + Simd::kTileBlocks <= end;
    const Tile* tiles = wide ? kTiles.wide : kTiles.narrow;
    const std::byte* data = matrix.data + static_cast<std::size_t>(block) * block_bytes;
    const bool more = wide && block + 2 * Simd::kTileBlocks <= end;
    for (int t = 0; t < tokens; t += kMost) {
      const int count = tokens - t < kMost ? tokens - t : kMost;
      const bool last = t + count == tokens;
      tiles[count - 1](data, block_bytes, matrix.groups, last && more, rows + t,
                       out + t * stride + block * kLanes, stride, past_cache);
    }
    block += wide ? Simd::kTileBlocks : 1;
  }
}

template <bool kPastCache>
void matmul(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens, float* out,
            std::ptrdiff_t stride) {
  const bool exact = rows[0].low != nullptr;
  const auto as = matrix.planes == 1 ? (exact ? &matmul_as<true, 1> : &matmul_as<false, 1>)
                                     : (exact ? &matmul_as<true, 2> : &matmul_as<false, 2>);
  const bool past_cache = kPastCache && lily::cpu::whole_lines(out, stride);
  as(matrix, begin, end, rows, tokens, out, stride, past_cache);
  if constexpr (kPastCache) finish_stores<Simd>();
}

}  // namespace
