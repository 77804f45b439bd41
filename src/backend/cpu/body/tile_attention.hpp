// Attention of many tokens at once on matrix tiles of bf16, over any Simd and any Tiles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/body/code_lanes.hpp"
#include "backend/cpu/body/split_tiles.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/tile_scratch.hpp"

namespace {

namespace tiled {

using lily::cpu::AttentionGroup;
using lily::cpu::kAttentionBlock;
using lily::cpu::KvView;

// 2^x to 8e-5 of itself, 0 below -126.5; NaN stays NaN. What is made of it is rounded to 2^-9.
LILY_INLINE F power_of_two(F x) {
  // The constant comes first: x86's max gives the second operand when one is NaN.
  x = Simd::max(Simd::set1(-127.0F), x);
  const I n = Simd::round(x);
  const F f = Simd::sub(x, Simd::to_float(n));
  F p = Simd::fma(Simd::set1(0.05517162F), f, Simd::set1(0.24261112F));
  p = Simd::fma(p, f, Simd::set1(0.69326099F));
  p = Simd::fma(p, f, Simd::set1(0.99992807F));
  return Simd::mul(p, Simd::bits_to_float(Simd::template shift_left<23>(Simd::iadd(n, Simd::iset1(127)))));
}

// 32 rows of 16-bit integers, of which two lie beside each other, as floats.
LILY_INLINE void widen_pairs(const std::int16_t* from, int strip, F (&x)[32]) {
#pragma GCC unroll 16
  for (int i = 0; i < 32; i += 2) {
    const I words = Simd::load_words(from + i * strip);
    x[i] = pair_lanes<0>(words);
    x[i + 1] = pair_lanes<1>(words);
  }
}

constexpr float kLog2E = 1.44269504F;
// How far a score may rise above what its row's weights are relative to, before all sums so far are scaled
// down: weights reach e^6. So most blocks leave the sums where tiles can add to them.
constexpr float kSlack = 6;

// Rows are the queries of one head and token each, 16 a tile, taken two tiles at a time.
template <class Tiles>
class GroupAttention {
 public:
  GroupAttention(const KvView& kv, int head_dim, const AttentionGroup& group)
      : kv_(kv),
        group_(group),
        head_dim_(head_dim),
        steps_(head_dim / 32),
        rows_(group.tokens * group.heads),
        pairs_((rows_ + 31) / 32) {
    const std::size_t steps = static_cast<std::size_t>(steps_), pairs = static_cast<std::size_t>(pairs_);
    std::int8_t* memory = lily::cpu::tile_scratch(
        sizeof(Fixed) + (32 + 6 * pairs) * steps * sizeof(PairTile) + pairs * 32 * sizeof(Row));
    fixed_ = reinterpret_cast<Fixed*>(memory);
    keys_ = reinterpret_cast<PairTile*>(memory + sizeof(Fixed));
    values_ = keys_ + 16 * steps;
    queries_ = values_ + 16 * steps;
    sums_ = reinterpret_cast<float*>(queries_ + 2 * pairs * steps);
    of_row_ = reinterpret_cast<Row*>(queries_ + 6 * pairs * steps);
  }

  void run() {
    take_rows();
    const int last = group_.position + group_.tokens;
    for (begin_ = 0; begin_ < last; begin_ += kAttentionBlock) {
      end_ = std::min(begin_ + kAttentionBlock, last);
      take_keys();
      take_values();
      int first = 0;
      while (columns_of(first) == 0) ++first;
      score(first, [](int, int) {});
      for (int pair = first; pair < pairs_; ++pair) {
        // Softmax of a pair beside the products of the next and of the one before.
        const bool next = pair + 1 < pairs_, before = pair > first;
        const int middle = !next ? 0 : before ? 16 : 32;
        int done = 0;
        const auto weigh_until = [&](int end) __attribute__((always_inline)) {
          for (; done < end; ++done) weigh(pair, done);
        };
        if (next) {
          score(
              pair + 1, [&](int step, int steps)
                            __attribute__((always_inline)) { weigh_until(middle * (step + 1) / steps); });
        }
        if (before) {
          add_values(
              pair - 1, [&](int step, int steps) __attribute__((always_inline)) {
                weigh_until(middle + (32 - middle) * (step + 1) / steps);
              });
        }
        weigh_until(32);
      }
      add_values(pairs_ - 1, [](int, int) {});
    }
    put_rows();
  }

 private:
  struct alignas(64) Fixed {
    float scores[2][2][16][kTileFloats];  // [turn][tile of rows][16 positions]
    PairTile weights[2][2][8];            // [turn][tile of rows][32 positions]
  };

  struct Row {
    float reference;  // what its weights are relative to: e^(score - reference)
    float sum;
    int end;  // of the positions it sees
  };

  // Positions of the block that a row sees; not positive where all lie behind it.
  int visible(int row) const { return row < rows_ ? std::min(end_, of_row_[row].end) - begin_ : 0; }
  // 32 positions each, that the last of a pair's rows sees.
  int columns_of(int pair) const {
    const int seen = visible(std::min(32 * pair + 31, rows_ - 1));
    return seen <= 0 ? 0 : (seen + 31) / 32;
  }

  void take_rows() {
    std::memset(static_cast<void*>(queries_), 0,
                sizeof(PairTile) * static_cast<std::size_t>(2 * pairs_ * steps_));
    for (int i = 0; i < rows_; ++i) {
      const int t = i / group_.heads, h = i % group_.heads;
      const float* query =
          group_.queries + t * group_.query_stride + static_cast<std::ptrdiff_t>(h) * head_dim_;
      for (int s = 0; s < steps_; ++s, query += 32) {
        put_pair(Simd::load(query), Simd::load(query + 16), queries_[i / 16 * steps_ + s], i % 16);
      }
      of_row_[i] = {-INFINITY, 0, group_.position + t + 1};
    }
    std::memset(sums_, 0, sizeof(float) * static_cast<std::size_t>(pairs_ * 32 * head_dim_));
  }
  void put_rows() {
    for (int i = 0; i < rows_; ++i) {
      const int t = i / group_.heads, h = i % group_.heads;
      float* out = group_.values + t * group_.value_stride + static_cast<std::ptrdiff_t>(h) * head_dim_;
      for (int d = 0; d < head_dim_; d += 16) Simd::store(out + d, Simd::load(sum_of(i, d)));
      group_.sums[t * group_.sum_stride + h] = of_row_[i].sum;
    }
  }

  // keys_[16 positions][32 dims]
  void take_keys() {
    const int count = (end_ - begin_ + 31) / 32 * 32;
    for (int s = 0; s < count; s += 16) {
      for (int d = 0; d < head_dim_; d += 32) {
        const F scale = Simd::load(kv_.key_scales + lily::cpu::key_scale_index(head_dim_, begin_ + s, d));
        F x[32];
        if (kv_.int8) {
          const auto* from = static_cast<const std::uint8_t*>(kv_.keys) +
                             lily::cpu::key_code_index(head_dim_, begin_ + s, d);
#pragma GCC unroll 8
          for (int quad = 0; quad < 8; ++quad) {
            const I words = Simd::load_words(from + quad * 64);
            F* to = x + quad / 2 * 8 + quad % 2;
            to[0] = byte_lanes<0, true>(words);
            to[2] = byte_lanes<1, true>(words);
            to[4] = byte_lanes<2, true>(words);
            to[6] = byte_lanes<3, true>(words);
          }
        } else {
          const std::ptrdiff_t at = lily::cpu::key_index(head_dim_, begin_ + s, d);
          widen_pairs(static_cast<const std::int16_t*>(kv_.keys) + at, lily::cpu::kKeyStrip, x);
        }
        PairTile& tile = keys_[s / 16 * steps_ + d / 32];
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j) put_pair(Simd::mul(scale, x[j]), Simd::mul(scale, x[j + 16]), tile, j);
      }
    }
  }

  // values_[16 dims][32 positions]
  void take_values() {
    const int count = end_ - begin_, padded = (count + 31) / 32 * 32;
    alignas(64) float scales[kAttentionBlock];
    for (int d = 0; d < head_dim_; d += 16) {
      if (d % lily::cpu::kGroup == 0) {
        // What lies behind the last position was never written: its weight is 0, and so must it be.
        std::copy_n(kv_.value_scales + lily::cpu::value_scale_index(head_dim_, begin_, d), count, scales);
        std::fill(scales + count, scales + padded, 0.0F);
      }
      for (int s = 0; s < padded; s += 32) {
        F x[32];
        if (kv_.int8) {
          const auto* from = static_cast<const std::int8_t*>(kv_.values) +
                             lily::cpu::value_code_index(head_dim_, begin_ + s, d);
#pragma GCC unroll 8
          for (int i = 0; i < 32; i += 4) {
            const I words = Simd::load_words(from + i * 16);
            x[i] = byte_lanes<0, false>(words);
            x[i + 1] = byte_lanes<1, false>(words);
            x[i + 2] = byte_lanes<2, false>(words);
            x[i + 3] = byte_lanes<3, false>(words);
          }
        } else {
          const std::ptrdiff_t at = lily::cpu::value_index(head_dim_, begin_ + s, d);
          widen_pairs(static_cast<const std::int16_t*>(kv_.values) + at, lily::cpu::kValueStrip, x);
        }
        PairTile& tile = values_[d / 16 * 8 + s / 32];
#pragma GCC unroll 16
        for (int j = 0; j < 16; ++j) {
          put_pair(Simd::mul(Simd::set1(scales[s + j]), x[j]),
                   Simd::mul(Simd::set1(scales[s + j + 16]), x[j + 16]), tile, j);
        }
      }
    }
  }

  template <class Beside>
  void score(int pair, const Beside& beside) {
    const PairTile *left0 = queries_ + 2 * pair * steps_, *left1 = left0 + steps_;
    auto& scores = fixed_->scores[pair % 2];
    const int columns = columns_of(pair);
    for (int c = 0; c < columns; ++c) {
      const PairTile *right0 = keys_ + 2 * c * steps_, *right1 = right0 + steps_;
      FourSums<Tiles>::zero(tiles_);
      for (int s = 0; s < steps_; ++s) {
        FourSums<Tiles>::template multiply<Once::right>(tiles_, left0[s], left1[s], right0[s], right1[s]);
        if (s % 2 == 1) beside(c * steps_ + s, columns * steps_);
      }
      FourSums<Tiles>::store(tiles_, scores[0][2 * c], scores[0][2 * c + 1], scores[1][2 * c],
                             scores[1][2 * c + 1]);
    }
  }

  // Sixteen dims of a row, from `d` on: sums_[pair][32 dims][tile of rows][tile of dims][16][16].
  float* sum_of(int row, int d) {
    const int tile = (row / 32 * steps_ + d / 32) * 4 + row / 16 % 2 * 2 + d / 16 % 2;
    return sums_ + static_cast<std::ptrdiff_t>(tile) * kTileFloats + row % 16 * 16;
  }

  // Softmax of one row's scores.
  void weigh(int pair, int i) {
    const int row = 32 * pair + i, columns = columns_of(pair), seen = visible(row), own = i % 16;
    PairTile* weights = fixed_->weights[pair % 2][i / 16];
    if (seen <= 0) {
      for (int c = 0; c < columns; ++c) std::memset(weights[c].words[own], 0, 64);
      return;
    }
    Row& state = of_row_[row];
    float* scores = fixed_->scores[pair % 2][i / 16][0] + own * 16;
    constexpr int kNext = kTileFloats;  // to the next 16 positions
    for (int s = seen; s < 32 * columns; ++s) scores[s / 16 * kNext + s % 16] = -INFINITY;
    // Two chains of operations, which do not wait for each other.
    F largest[2] = {Simd::load(scores), Simd::load(scores + kNext)};
    for (int c = 1; c < columns; ++c) {
      for (int k = 0; k < 2; ++k)
        largest[k] = Simd::max(largest[k], Simd::load(scores + (2 * c + k) * kNext));
    }
    const float found = Simd::reduce_max(Simd::max(largest[0], largest[1]));
    if (found > state.reference + kSlack) raise(state, row, found);
    const F shift = Simd::set1(-kLog2E * state.reference), factor = Simd::set1(kLog2E);
    F sum[2] = {Simd::zero(), Simd::zero()};
    for (int c = 0; c < columns; ++c) {
      Words w[2];
      for (int k = 0; k < 2; ++k) {
        const F score = Simd::load(scores + (2 * c + k) * kNext);
        w[k] = round_to_half(power_of_two(Simd::fma(score, factor, shift)));
        // The rounded weights are summed, so that rounding changes their shares and not their sum.
        sum[k] = Simd::add(sum[k], upper_half(w[k]));
      }
      store_words(weights[c].words[own], join_upper_halves(w[0], w[1]));
    }
    state.sum += Simd::reduce_add(Simd::add(sum[0], sum[1]));
  }
  void raise(Row& state, int row, float reference) {
    const float factor = std::exp(state.reference - reference);
    state.reference = reference;
    state.sum *= factor;
    for (int d = 0; d < head_dim_; d += 16) {
      float* sum = sum_of(row, d);
      Simd::store(sum, Simd::mul(Simd::set1(factor), Simd::load(sum)));
    }
  }

  template <class Beside>
  void add_values(int pair, const Beside& beside) {
    const int columns = columns_of(pair);
    const auto& weights = fixed_->weights[pair % 2];
    for (int d = 0; d < steps_; ++d) {
      const PairTile *right0 = values_ + 2 * d * 8, *right1 = right0 + 8;
      float* sums = sum_of(32 * pair, 32 * d);
      FourSums<Tiles>::load(tiles_, sums, sums + kTileFloats, sums + 2 * kTileFloats, sums + 3 * kTileFloats);
      for (int c = 0; c < columns; ++c) {
        FourSums<Tiles>::template multiply<Once::right>(tiles_, weights[0][c], weights[1][c], right0[c],
                                                        right1[c]);
        if (c % 2 == 1 || c + 1 == columns) beside(d * columns + c, steps_ * columns);
      }
      FourSums<Tiles>::store(tiles_, sums, sums + kTileFloats, sums + 2 * kTileFloats,
                             sums + 3 * kTileFloats);
    }
  }

  Tiles tiles_;
  KvView kv_;
  AttentionGroup group_;
  int head_dim_, steps_, rows_, pairs_;  // steps: of 32 dims
  int begin_ = 0, end_ = 0;              // of the block's positions
  Fixed* fixed_;
  PairTile *keys_, *values_, *queries_;
  float* sums_;
  Row* of_row_;
};

// Kernels::attend_group.
template <class Tiles>
void attend_group(const KvView& kv, int head_dim, const AttentionGroup& group) {
  GroupAttention<Tiles>(kv, head_dim, group).run();
}

}  // namespace tiled

}  // namespace
