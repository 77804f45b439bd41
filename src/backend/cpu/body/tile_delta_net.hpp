// The gated delta rule in chunks of 64 tokens on matrix tiles, over any Simd and any Tiles. The factors of
// products are tiles of one bf16 term or of two (body/split_tiles.hpp).
//
// A chunk is two parts of 32 tokens, as many as one product adds up. Parts are solved one after the other; M
// is turned into tiles and written once for both. The next chunk's rows, which lie kilobytes apart, are asked
// for while this one's are used.
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

// A part of a chunk is what one product adds up.
constexpr int kPartTokens = 32;
constexpr int kParts = 2;
constexpr int kChunkTokens = kParts * kPartTokens;

// What the value heads of a key head share of a chunk, and what one of them needs besides. Rows that a short
// part lacks are zeros that decay nothing.
template <class Tiles, class Factor>
class DeltaChunk {
 public:
  DeltaChunk(int key_dim, int value_dim) : key_dim_(key_dim), value_dim_(value_dim), steps_(key_dim / 32) {
    const std::size_t widest = static_cast<std::size_t>(std::max(key_dim, value_dim)) * sizeof(float);
    const auto tiles = static_cast<std::size_t>(2 * steps_);
    std::int8_t* memory =
        lily::cpu::tile_scratch(sizeof(Fixed) + widest + tiles * (4 * kParts + 2) * sizeof(Factor));
    fixed_ = reinterpret_cast<Fixed*>(memory);
    auto* next = reinterpret_cast<Factor*>(memory + sizeof(Fixed));
    for (Rows& rows : rows_) {
      rows.keys = next;
      rows.queries = next + tiles;
      rows.key_columns = next + 2 * tiles;
      rows.turned_keys = next + 3 * tiles;
      next += 4 * tiles;
    }
    for (Factor*& state : state_) {
      state = next;
      next += tiles;
    }
    zeros_ = reinterpret_cast<float*>(next);
    std::memset(zeros_, 0, widest);
  }

  // Keys and queries of tokens [first, first + count), count <= kChunkTokens.
  void take_keys(const DeltaNetRun& run, int first, int count) {
    first_ = first;
    count_ = count;
    parts_ = (count + kPartTokens - 1) / kPartTokens;
    for (int p = 0; p < parts_; ++p) take_part(run, p);
    for (int p = 0; p < parts_; ++p) {
      for (int c = 0; c <= p; ++c) {
        multiply_rows(rows_[p].keys, rows_[c].key_columns, fixed_->key_products[p][c]);
        multiply_rows(rows_[p].queries, rows_[c].key_columns, fixed_->query_products[p][c]);
      }
    }
  }

  // Runs the chunk for one head.
  void run_head(const DeltaNetRun& run) {
    run_ = &run;
    take_gates();
    const int pairs = value_dim_ / 32;
    take_state(0);
    for (int v = 0; v < pairs; ++v) {
      for (int p = 0; p < parts_; ++p) {
        project(rows_[p].keys, v, fixed_->keys_of_state[p]);
        project(rows_[p].queries, v, fixed_->queries_of_state[p]);
      }
      if (v + 1 < pairs) take_state(v + 1);
      for (int p = 0; p < parts_; ++p) {
        if (p > 0) subtract_earlier(p);
        take_residual(v, p);
        solve(p);
        take_errors(p);
      }
      for (int p = 0; p < parts_; ++p) weigh_errors(p);
      update(v);
      for (int p = 0; p < parts_; ++p) put_output(v, p);
    }
  }

 private:
  using Sums = float[2][2][kTileFloats];  // [row of tiles][column of tiles]
  struct alignas(64) Fixed {
    // Q K^T and K K^T of the chunk, [part of rows][part of columns].
    Sums key_products[kParts][kParts], query_products[kParts][kParts];
    // Of a part: -(strictly lower part of diag(beta) (K K^T * D)), and rows of (I + A)^-1.
    float lower[kPartTokens][kPartTokens], inverse_rows[kPartTokens][kPartTokens];
    // [tile of rows]. What lies left of a part's own columns in -A, and lower(Q K^T * D).
    Factor inverse[kParts][2], earlier[kParts][kParts][2], weights[kParts][kParts][2];
    float decay[kChunkTokens], minus_beta_decay[kChunkTokens], beta[kChunkTokens], decay_to_end[kChunkTokens];
    Sums keys_of_state[kParts], queries_of_state[kParts], solved, subtracted, weighed[kParts];
    // [tile of columns]
    Factor residual[2], errors[kParts][2], decayed_errors[kParts][2];
  };
  // Of a part: [step][tile of rows], turned_keys [tile of keys].
  struct Rows {
    Factor *keys, *queries, *key_columns, *turned_keys;
  };
  using Four = FourSums<Tiles>;

  bool present(int t) const { return t < count_; }
  // Into the second-level cache; an address behind the last row does no harm.
  LILY_INLINE void prefetch(const float* p) { __builtin_prefetch(p, 0, 2); }

  void take_part(const DeltaNetRun& run, int p) {
    const Rows& rows = rows_[p];
    for (int j = 0; j < kLanes; ++j) {
      const float* key[2];
      const float* query[2];
      for (int r = 0; r < 2; ++r) {
        const int t = p * kPartTokens + j + r * kLanes;
        key[r] = present(t) ? run.keys + (first_ + t) * run.key_stride : zeros_;
        query[r] = present(t) ? run.queries + (first_ + t) * run.query_stride : zeros_;
      }
      for (int s = 0; s < steps_; ++s) {
        F k[2][2];
        for (int r = 0; r < 2; ++r) {
          for (int l = 0; l < 32; l += kLanes) {
            prefetch(key[r] + s * 32 + l + kChunkTokens * run.key_stride);
            prefetch(query[r] + s * 32 + l + kChunkTokens * run.query_stride);
          }
          k[r][0] = Simd::load(key[r] + s * 32);
          k[r][1] = Simd::load(key[r] + s * 32 + kLanes);
          put_pair(k[r][0], k[r][1], rows.keys[2 * s + r], j);
          put_pair(Simd::load(query[r] + s * 32), Simd::load(query[r] + s * 32 + kLanes),
                   rows.queries[2 * s + r], j);
        }
        put_pair(k[0][0], k[1][0], rows.turned_keys[2 * s], j);
        put_pair(k[0][1], k[1][1], rows.turned_keys[2 * s + 1], j);
      }
    }
    for (int i = 0; i < 2 * steps_; ++i) {
      transpose(rows.keys[i], rows.key_columns[i]);
      transpose(rows.turned_keys[i], rows.turned_keys[i]);
    }
  }

  void store(Sums& sums) { Four::store(tiles_, sums[0][0], sums[0][1], sums[1][0], sums[1][1]); }

  // `rows` times the keys.
  void multiply_rows(const Factor* rows, const Factor* columns, Sums& sums) {
    Four::zero(tiles_);
    for (int s = 0; s < steps_; ++s)
      Four::multiply(tiles_, rows[2 * s], rows[2 * s + 1], columns[2 * s], columns[2 * s + 1]);
    store(sums);
  }

  // D_ij = product of alpha over j < . <= i, row after row: nothing to mask, and no logarithm.
  void take_gates() {
    Fixed& f = *fixed_;
    F between[2 * kParts];
    for (F& x : between) x = Simd::zero();
    float decay = 1;
    for (int p = 0; p < parts_; ++p) {
      for (int row = 0; row < kPartTokens; ++row) {
        const int i = p * kPartTokens + row, r = row / kLanes, own = row % kLanes;
        const std::ptrdiff_t at = (first_ + i) * run_->gate_stride;
        const float alpha = present(i) ? run_->alpha[at] : 1, beta = present(i) ? run_->beta[at] : 0;
        decay *= alpha;
        f.decay[i] = decay;
        f.beta[i] = beta;
        f.minus_beta_decay[i] = -beta * decay;
        for (F& x : between) x = Simd::mul(Simd::set1(alpha), x);
        for (int c = 0; c <= p; ++c) {
          F lower[2], weight[2];
          for (int k = 0; k < 2; ++k) {
            F& x = between[2 * c + k];
            lower[k] = Simd::mul(Simd::mul(Simd::set1(-beta), x),
                                 Simd::load(f.key_products[p][c][r][k] + own * kLanes));
            if (c == p) x = Simd::add(x, Simd::load(kUnit + 31 - row + k * kLanes));
            weight[k] = Simd::mul(x, Simd::load(f.query_products[p][c][r][k] + own * kLanes));
          }
          put_pair(weight[0], weight[1], f.weights[p][c][r], own);
          if (c < p) {
            put_pair(lower[0], lower[1], f.earlier[p][c][r], own);
          } else {
            Simd::store(f.lower[row], lower[0]);
            Simd::store(f.lower[row] + kLanes, lower[1]);
          }
        }
      }
      invert(p);
    }
    for (int c = 0; c < 2 * parts_; ++c) Simd::store(f.decay_to_end + c * kLanes, between[c]);
    last_decay_ = decay;
  }

  // (I + A)^-1, row after row.
  void invert(int p) {
    Fixed& f = *fixed_;
    for (int i = 0; i < kPartTokens; ++i) {
      F left = Simd::load(kUnit + 31 - i), right = Simd::load(kUnit + 47 - i);
      for (int j = 0; j < i; ++j) {
        const F factor = Simd::set1(f.lower[i][j]);
        left = Simd::fma(factor, Simd::load(f.inverse_rows[j]), left);
        if (j >= kLanes) right = Simd::fma(factor, Simd::load(f.inverse_rows[j] + kLanes), right);
      }
      Simd::store(f.inverse_rows[i], left);
      Simd::store(f.inverse_rows[i] + kLanes, right);
      put_pair(left, right, f.inverse[p][i / kLanes], i % kLanes);
    }
  }

  float* state_block(int block) const {
    return run_->state + static_cast<std::ptrdiff_t>(block) * key_dim_ * kLanes;
  }

  // M of two blocks of 16 value rows as tiles, [column of tiles][step], and decayed.
  void take_state(int v) {
    const F decay = Simd::set1(last_decay_);
    Factor* tile = state_[v % 2];
    for (int column = 0; column < 2; ++column) {
      float* rows = state_block(2 * v + column);
      for (int s = 0; s < steps_; ++s, ++tile, rows += kTileFloats) {
        for (int j = 0; j < kLanes; ++j, rows += kLanes) {
          const F a = Simd::load(rows), b = Simd::load(rows + kTileFloats);
          put_pair(a, b, *tile, j);
          Simd::store(rows, Simd::mul(decay, a));
          Simd::store(rows + kTileFloats, Simd::mul(decay, b));
        }
      }
    }
  }

  // K M, Q M.
  void project(const Factor* rows, int v, Sums& sums) {
    const Factor *left = state_[v % 2], *right = left + steps_;
    Four::zero(tiles_);
    for (int s = 0; s < steps_; ++s)
      Four::template multiply<Once::left>(tiles_, rows[2 * s], rows[2 * s + 1], left[s], right[s]);
    store(sums);
  }

  // -A E of the parts before.
  void subtract_earlier(int p) {
    Fixed& f = *fixed_;
    Four::zero(tiles_);
    for (int c = 0; c < p; ++c)
      Four::multiply(tiles_, f.earlier[p][c][0], f.earlier[p][c][1], f.errors[c][0], f.errors[c][1]);
    store(f.subtracted);
  }

  // diag(beta) (V - diag(exp(c)) K M) less what the parts before have written.
  void take_residual(int v, int p) {
    Fixed& f = *fixed_;
    for (int column = 0; column < 2; ++column) {
      for (int j = 0; j < kLanes; ++j) {
        F row[2];
        for (int r = 0; r < 2; ++r) {
          const int t = p * kPartTokens + j + r * kLanes;
          const float* value =
              present(t) ? run_->values + (first_ + t) * run_->value_stride + v * 32 + column * kLanes
                         : zeros_;
          prefetch(value + kChunkTokens * run_->value_stride);
          const F read = Simd::load(f.keys_of_state[p][r][column] + j * kLanes);
          row[r] = Simd::fma(Simd::set1(f.minus_beta_decay[t]), read,
                             Simd::mul(Simd::set1(f.beta[t]), Simd::load(value)));
          if (p > 0) row[r] = Simd::add(row[r], Simd::load(f.subtracted[r][column] + j * kLanes));
        }
        put_pair(row[0], row[1], f.residual[column], j);
      }
    }
  }

  // E, in fp32.
  void solve(int p) {
    Fixed& f = *fixed_;
    Four::zero(tiles_);
    Four::multiply(tiles_, f.inverse[p][0], f.inverse[p][1], f.residual[0], f.residual[1]);
    store(f.solved);
  }
  void take_errors(int p) {
    Fixed& f = *fixed_;
    const float* decay = f.decay_to_end + p * kPartTokens;
    for (int column = 0; column < 2; ++column) {
      for (int j = 0; j < kLanes; ++j) {
        const F a = Simd::load(f.solved[0][column] + j * kLanes);
        const F b = Simd::load(f.solved[1][column] + j * kLanes);
        put_pair(a, b, f.errors[p][column], j);
        put_pair(Simd::mul(Simd::set1(decay[j]), a), Simd::mul(Simd::set1(decay[j + kLanes]), b),
                 f.decayed_errors[p][column], j);
      }
    }
  }

  // lower(Q K^T * D) E.
  void weigh_errors(int p) {
    Fixed& f = *fixed_;
    Four::zero(tiles_);
    for (int c = 0; c <= p; ++c)
      Four::multiply(tiles_, f.weights[p][c][0], f.weights[p][c][1], f.errors[c][0], f.errors[c][1]);
    store(f.weighed[p]);
  }

  // M += K^T (decayed E).
  void update(int v) {
    Fixed& f = *fixed_;
    float *left = state_block(2 * v), *right = state_block(2 * v + 1);
    for (int s = 0; s < steps_; ++s) {
      Four::load(tiles_, left, right, left + kTileFloats, right + kTileFloats);
      for (int p = 0; p < parts_; ++p) {
        const Factor* keys = rows_[p].turned_keys + 2 * s;
        Four::template multiply<Once::left>(tiles_, keys[0], keys[1], f.decayed_errors[p][0],
                                            f.decayed_errors[p][1]);
      }
      Four::store(tiles_, left, right, left + kTileFloats, right + kTileFloats);
      left += 2 * kTileFloats;
      right += 2 * kTileFloats;
    }
  }

  void put_output(int v, int p) {
    Fixed& f = *fixed_;
    for (int row = 0; row < kPartTokens; ++row) {
      const int t = p * kPartTokens + row, r = row / kLanes, own = row % kLanes * kLanes;
      if (!present(t)) return;
      float* out = run_->out + (first_ + t) * run_->out_stride + v * 32;
      for (int column = 0; column < 2; ++column) {
        prefetch(out + column * kLanes + kChunkTokens * run_->out_stride);
        Simd::store(out + column * kLanes,
                    Simd::fma(Simd::set1(f.decay[t]), Simd::load(f.queries_of_state[p][r][column] + own),
                              Simd::load(f.weighed[p][r][column] + own)));
      }
    }
  }

  static constexpr float kUnit[4 * kLanes] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                              0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

  Tiles tiles_;
  int key_dim_, value_dim_, steps_;  // steps: of 32 keys
  int count_ = 0, first_ = 0, parts_ = 0;
  float last_decay_ = 1;
  const DeltaNetRun* run_ = nullptr;
  Fixed* fixed_;
  Rows rows_[kParts];
  Factor* state_[2];
  float* zeros_;
};

// A part takes as long as some ten tokens one by one.
constexpr int kFewestPartTokens = 12;

// Kernels::delta_net_heads with Factor = SplitTile, delta_net_heads_fast with PairTile; `one_by_one` is
// Kernels::delta_net.
template <class Tiles, class Factor>
void delta_net_heads(const DeltaNetRun* runs, int heads, void (*one_by_one)(const DeltaNetRun&, int)) {
  const int tokens = runs->tokens, rest = tokens % kPartTokens;
  const int in_chunks = rest < kFewestPartTokens ? tokens - rest : tokens;
  if (in_chunks > 0) {
    DeltaChunk<Tiles, Factor> chunk(runs->key_dim, runs->value_dim);
    for (int first = 0; first < in_chunks; first += kChunkTokens) {
      chunk.take_keys(*runs, first, std::min(kChunkTokens, in_chunks - first));
      for (int h = 0; h < heads; ++h) chunk.run_head(runs[h]);
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
