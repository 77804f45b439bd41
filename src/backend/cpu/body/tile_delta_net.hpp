// The gated delta rule in chunks of 32 tokens on matrix tiles, over any Simd and any Tiles.
#pragma once

#include <algorithm>
#include <cstring>

#include "backend/cpu/body/split_tiles.hpp"
#include "backend/cpu/kernels.hpp"
#include "backend/cpu/tile_scratch.hpp"

namespace {

namespace tiled {

using lily::cpu::DeltaNetRun;
using lily::cpu::kLanes;

constexpr int kChunkTokens = 32;

// Work cut into as many equal parts as there are steps of other work to do it beside.
struct Part {
  int begin = 0, end = 0;
};
LILY_INLINE Part part_of(int count, int step, int steps) {
  return {count * step / steps, count * (step + 1) / steps};
}

// What the value heads of a key head share of a chunk, and what one of them needs besides. Rows that a short
// chunk lacks are zeros that decay nothing.
template <class Tiles>
class DeltaChunk {
 public:
  DeltaChunk(int key_dim, int value_dim)
      : key_dim_(key_dim), value_dim_(value_dim), steps_(key_dim / kChunkTokens) {
    const std::size_t widest = static_cast<std::size_t>(std::max(key_dim, value_dim)) * sizeof(float);
    const auto steps = static_cast<std::size_t>(steps_);
    std::int8_t* memory = lily::cpu::tile_scratch(sizeof(Fixed) + widest + steps * 12 * sizeof(SplitTile));
    fixed_ = reinterpret_cast<Fixed*>(memory);
    auto* tiles = reinterpret_cast<SplitTile*>(memory + sizeof(Fixed));
    keys_ = tiles;
    queries_ = tiles + 2 * steps;
    key_columns_ = tiles + 4 * steps;
    for (int i = 0; i < 2; ++i) state_[i] = tiles + (8 + 2 * static_cast<std::size_t>(i)) * steps;
    turned_keys_ = tiles + 6 * steps;
    zeros_ = reinterpret_cast<float*>(tiles + 12 * steps);
    std::memset(zeros_, 0, widest);
  }

  // Keys and queries of tokens [first, first + count), count <= 32.
  void take_keys(const DeltaNetRun& run, int first, int count) {
    count_ = count;
    for (int j = 0; j < kLanes; ++j) {
      const float* key[2];
      const float* query[2];
      for (int r = 0; r < 2; ++r) {
        const int t = j + r * kLanes;
        key[r] = t < count ? run.keys + (first + t) * run.key_stride : zeros_;
        query[r] = t < count ? run.queries + (first + t) * run.query_stride : zeros_;
      }
      for (int s = 0; s < steps_; ++s) {
        F k[2][2];
        for (int r = 0; r < 2; ++r) {
          k[r][0] = Simd::load(key[r] + s * 32);
          k[r][1] = Simd::load(key[r] + s * 32 + kLanes);
          put_pair(k[r][0], k[r][1], keys_[2 * s + r], j);
          put_pair(Simd::load(query[r] + s * 32), Simd::load(query[r] + s * 32 + kLanes), queries_[2 * s + r],
                   j);
        }
        put_pair(k[0][0], k[1][0], turned_keys_[2 * s], j);
        put_pair(k[0][1], k[1][1], turned_keys_[2 * s + 1], j);
      }
    }
    for (int i = 0; i < 2 * steps_; ++i) {
      transpose(keys_[i].high, key_columns_[i].high);
      transpose(keys_[i].low, key_columns_[i].low);
      transpose(turned_keys_[i].high, turned_keys_[i].high);
      transpose(turned_keys_[i].low, turned_keys_[i].low);
    }
    multiply_rows(keys_, fixed_->key_products);
    multiply_rows(queries_, fixed_->query_products);
  }

  // Runs the chunk for one head.
  void run_head(const DeltaNetRun& run, int first) {
    run_ = &run;
    first_ = first;
    take_gates();
    const int pairs = value_dim_ / 32;
    for (int i = 0; i < 2 * steps_; ++i) take_state(0, i);
    for (int v = 0; v <= pairs; ++v) {
      if (v < pairs) {
        const bool next = v + 1 < pairs;
        project(
            v, [&](int step) __attribute__((always_inline)) {
              if (next) {
                const Part rows = part_of(2 * steps_, step, 2 * steps_);
                for (int i = rows.begin; i < rows.end; ++i) take_state(v + 1, i);
              }
              if (v > 0) {
                const Part rows = part_of(2 * kLanes, step, 2 * steps_);
                for (int i = rows.begin; i < rows.end; ++i) take_errors(i);
              }
            });
      } else {
        for (int i = 0; i < 2 * kLanes; ++i) take_errors(i);
      }
      if (v > 0) {
        weigh_errors();
        update(
            v - 1, [&](int step) __attribute__((always_inline)) {
              const Part rows = part_of(2 * kLanes, step, steps_);
              for (int i = rows.begin; i < rows.end; ++i) {
                if (v < pairs) take_residual(v, i);
                put_output(v - 1, i);
              }
            });
      } else {
        for (int i = 0; i < 2 * kLanes; ++i) take_residual(v, i);
      }
      if (v < pairs) solve();
    }
  }

 private:
  using Sums = float[2][2][kTileFloats];  // [row of tiles][column of tiles]
  struct alignas(64) Fixed {
    // Q K^T and K K^T of the chunk.
    Sums key_products, query_products;
    // -(strictly lower part of diag(beta) (K K^T * D)), and rows of (I + A)^-1.
    float lower[kChunkTokens][kChunkTokens], inverse_rows[kChunkTokens][kChunkTokens];
    SplitTile inverse[2], weights[2];
    float decay[kChunkTokens], minus_beta_decay[kChunkTokens], beta[kChunkTokens], decay_to_end[kChunkTokens];
    Sums projected[2][2];  // [turn][K M, Q M]
    Sums solved, weighed;
    SplitTile residual[2], errors[2], decayed_errors[2];
  };

  // `rows` K^T.
  void multiply_rows(const SplitTile* rows, Sums& sums) {
    using Four = FourSums<Tiles>;
    Four::zero(tiles_);
    for (int s = 0; s < steps_; ++s) {
      Four::multiply(tiles_, rows[2 * s], rows[2 * s + 1], key_columns_[2 * s], key_columns_[2 * s + 1]);
    }
    Four::store(tiles_, sums[0][0], sums[0][1], sums[1][0], sums[1][1]);
  }

  // D_ij = product of alpha over j < . <= i, row after row: nothing to mask, and no logarithm.
  void take_gates() {
    static constexpr float kUnit[4 * kLanes] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    Fixed& f = *fixed_;
    F between[2] = {Simd::zero(), Simd::zero()};
    float decay = 1;
    for (int i = 0; i < kChunkTokens; ++i) {
      const int r = i / kLanes, row = i % kLanes * kLanes;
      const std::ptrdiff_t at = (first_ + i) * run_->gate_stride;
      const float alpha = i < count_ ? run_->alpha[at] : 1, beta = i < count_ ? run_->beta[at] : 0;
      decay *= alpha;
      f.decay[i] = decay;
      f.beta[i] = beta;
      f.minus_beta_decay[i] = -beta * decay;
      F weight[2];
      for (int c = 0; c < 2; ++c) {
        between[c] = Simd::mul(Simd::set1(alpha), between[c]);
        Simd::store(f.lower[i] + c * kLanes, Simd::mul(Simd::mul(Simd::set1(-beta), between[c]),
                                                       Simd::load(f.key_products[r][c] + row)));
        between[c] = Simd::add(between[c], Simd::load(kUnit + 31 - i + c * kLanes));
        weight[c] = Simd::mul(between[c], Simd::load(f.query_products[r][c] + row));
      }
      put_pair(weight[0], weight[1], f.weights[r], i % kLanes);
    }
    for (int c = 0; c < 2; ++c) Simd::store(f.decay_to_end + c * kLanes, between[c]);
    // (I + A)^-1, row after row.
    for (int i = 0; i < kChunkTokens; ++i) {
      F left = Simd::load(kUnit + 31 - i), right = Simd::load(kUnit + 47 - i);
      for (int j = 0; j < i; ++j) {
        const F factor = Simd::set1(f.lower[i][j]);
        left = Simd::fma(factor, Simd::load(f.inverse_rows[j]), left);
        if (j >= kLanes) right = Simd::fma(factor, Simd::load(f.inverse_rows[j] + kLanes), right);
      }
      Simd::store(f.inverse_rows[i], left);
      Simd::store(f.inverse_rows[i] + kLanes, right);
      put_pair(left, right, f.inverse[i / kLanes], i % kLanes);
    }
  }

  float* state_block(int block) const {
    return run_->state + static_cast<std::ptrdiff_t>(block) * key_dim_ * kLanes;
  }
  // [column of tiles][step], of two blocks of 16 value rows.
  SplitTile* state_tiles(int v) { return state_[v % 2]; }

  // 32 keys of one block of pair v: M as tiles, and decayed.
  void take_state(int v, int i) {
    const int column = i / steps_, s = i % steps_;
    float* rows = state_block(2 * v + column) + static_cast<std::ptrdiff_t>(s) * 32 * kLanes;
    SplitTile& tile = state_tiles(v)[column * steps_ + s];
    const F decay = Simd::set1(fixed_->decay[kChunkTokens - 1]);
    for (int j = 0; j < kLanes; ++j, rows += kLanes) {
      const F a = Simd::load(rows), b = Simd::load(rows + kLanes * kLanes);
      put_pair(a, b, tile, j);
      Simd::store(rows, Simd::mul(decay, a));
      Simd::store(rows + kLanes * kLanes, Simd::mul(decay, b));
    }
  }

  // K M and Q M.
  template <class Beside>
  void project_rows(const SplitTile* rows, const SplitTile* state, Sums& sums, const Beside& beside) {
    using Four = FourSums<Tiles>;
    Four::zero(tiles_);
    for (int s = 0; s < steps_; ++s) {
      Four::multiply(tiles_, rows[2 * s], rows[2 * s + 1], state[s], state[steps_ + s]);
      beside(s);
    }
    Four::store(tiles_, sums[0][0], sums[0][1], sums[1][0], sums[1][1]);
  }
  template <class Beside>
  void project(int v, const Beside& beside) {
    project_rows(keys_, state_tiles(v), fixed_->projected[v % 2][0], beside);
    project_rows(
        queries_, state_tiles(v),
        fixed_->projected[v % 2][1], [&](int s) __attribute__((always_inline)) { beside(steps_ + s); });
  }

  // diag(beta) (V - diag(exp(c)) K M), rows j and j + 16.
  void take_residual(int v, int i) {
    Fixed& f = *fixed_;
    const int column = i / kLanes, j = i % kLanes;
    F row[2];
    for (int r = 0; r < 2; ++r) {
      const int t = j + r * kLanes;
      const float* value =
          t < count_ ? run_->values + (first_ + t) * run_->value_stride + v * 32 + column * kLanes : zeros_;
      const F found = Simd::load(f.projected[v % 2][0][r][column] + j * kLanes);
      row[r] = Simd::fma(Simd::set1(f.minus_beta_decay[t]), found,
                         Simd::mul(Simd::set1(f.beta[t]), Simd::load(value)));
    }
    put_pair(row[0], row[1], f.residual[column], j);
  }

  // E, in fp32.
  void solve() {
    using Four = FourSums<Tiles>;
    Fixed& f = *fixed_;
    Four::zero(tiles_);
    Four::multiply(tiles_, f.inverse[0], f.inverse[1], f.residual[0], f.residual[1]);
    Four::store(tiles_, f.solved[0][0], f.solved[0][1], f.solved[1][0], f.solved[1][1]);
  }
  void take_errors(int i) {
    Fixed& f = *fixed_;
    const int column = i / kLanes, j = i % kLanes;
    const F a = Simd::load(f.solved[0][column] + j * kLanes),
            b = Simd::load(f.solved[1][column] + j * kLanes);
    put_pair(a, b, f.errors[column], j);
    put_pair(Simd::mul(Simd::set1(f.decay_to_end[j]), a),
             Simd::mul(Simd::set1(f.decay_to_end[j + kLanes]), b), f.decayed_errors[column], j);
  }

  // lower(Q K^T * D) E.
  void weigh_errors() {
    using Four = FourSums<Tiles>;
    Fixed& f = *fixed_;
    Four::zero(tiles_);
    Four::multiply(tiles_, f.weights[0], f.weights[1], f.errors[0], f.errors[1]);
    Four::store(tiles_, f.weighed[0][0], f.weighed[0][1], f.weighed[1][0], f.weighed[1][1]);
  }

  // M += K^T (decayed E).
  template <class Beside>
  void update(int v, const Beside& beside) {
    using Four = FourSums<Tiles>;
    float *left = state_block(2 * v), *right = state_block(2 * v + 1);
    for (int s = 0; s < steps_; ++s) {
      Four::load(tiles_, left, right, left + kTileFloats, right + kTileFloats);
      Four::multiply(tiles_, turned_keys_[2 * s], turned_keys_[2 * s + 1], fixed_->decayed_errors[0],
                     fixed_->decayed_errors[1]);
      Four::store(tiles_, left, right, left + kTileFloats, right + kTileFloats);
      left += 2 * kTileFloats;
      right += 2 * kTileFloats;
      beside(s);
    }
  }

  void put_output(int v, int i) {
    Fixed& f = *fixed_;
    const int column = i / kLanes, j = i % kLanes;
    for (int r = 0; r < 2; ++r) {
      const int t = j + r * kLanes;
      if (t >= count_) return;
      const F carried = Simd::load(f.projected[v % 2][1][r][column] + j * kLanes);
      Simd::store(run_->out + (first_ + t) * run_->out_stride + v * 32 + column * kLanes,
                  Simd::fma(Simd::set1(f.decay[t]), carried, Simd::load(f.weighed[r][column] + j * kLanes)));
    }
  }

  Tiles tiles_;
  int key_dim_, value_dim_, steps_;  // steps: of 32 keys
  int count_ = 0, first_ = 0;
  const DeltaNetRun* run_ = nullptr;
  Fixed* fixed_;
  SplitTile *keys_, *queries_, *key_columns_, *turned_keys_;  // [steps][2 rows of tiles]
  SplitTile* state_[2];
  float* zeros_;
};

// A chunk takes as long as some ten tokens one by one.
constexpr int kFewestChunkTokens = 12;

// Kernels::delta_net_heads; `one_by_one` is Kernels::delta_net.
template <class Tiles>
void delta_net_heads(const DeltaNetRun* runs, int heads, void (*one_by_one)(const DeltaNetRun&, int)) {
  const int tokens = runs->tokens, rest = tokens % kChunkTokens;
  const int in_chunks = rest < kFewestChunkTokens ? tokens - rest : tokens;
  if (in_chunks > 0) {
    DeltaChunk<Tiles> chunk(runs->key_dim, runs->value_dim);
    for (int first = 0; first < in_chunks; first += kChunkTokens) {
      chunk.take_keys(*runs, first, std::min(kChunkTokens, in_chunks - first));
      for (int h = 0; h < heads; ++h) chunk.run_head(runs[h], first);
    }
  }
  if (in_chunks == tokens) return;
  for (int h = 0; h < heads; ++h) {
    DeltaNetRun run = runs[h];
    run.queries += in_chunks * run.query_stride;
    run.keys += in_chunks * run.key_stride;
    run.values += in_chunks * run.value_stride;
    run.alpha += in_chunks * run.gate_stride;
    run.beta += in_chunks * run.gate_stride;
    run.out += in_chunks * run.out_stride;
    run.tokens = rest;
    for (int block = 0; block < run.value_dim / kLanes; ++block) one_by_one(run, block);
  }
}

}  // namespace tiled

}  // namespace
