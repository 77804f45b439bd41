// Gated DeltaNet in chunks of 64 tokens on matrix tiles.
#pragma once
#include "backend/gpu/dialect/tile.h"
#include "backend/gpu/kernels/args/delta_chunks.h"
#include "backend/gpu/kernels/row_scale.h"

using namespace lily::gpu;

namespace lily::gpu {

// Eight floats times a factor as halves; zeros where there are none.
GPU_FN uint4 eight_halves(in<float> from, bool real, float factor) {
  if (!real) return uint4{0, 0, 0, 0};
  float4 p = load4(from) * factor, q = load4(from + 4) * factor;
  return uint4{half_pack(p.x, p.y), half_pack(p.z, p.w), half_pack(q.x, q.y), half_pack(q.z, q.w)};
}

// Where row `row` of A, row > 0, begins: rows are padded to whole groups of four.
GPU_FN uint lower_row(uint row) { return ((row - 1) / 4 + 1) * ((row - 1) / 4 * 8 + (row - 1) % 4 * 4); }

// x = column `column` of (I + A)^-1. Four sums, so that an addition need not wait for the one before.
GPU_FN void solve_column(ref<float[DeltaChunks::chunk]> x, shared<float> lower, uint column) {
  GPU_UNROLL for (uint i = 0; i < DeltaChunks::chunk; ++i) {
    float sum[4] = {i == column ? 1.0f : 0.0f, 0.0f, 0.0f, 0.0f};
    GPU_UNROLL for (uint j = 0; j < i; j += 4) {
      float4 a = load4(lower + lower_row(i) + j);
      sum[0] -= a.x * x[j];
      if (j + 1 < i) sum[1] -= a.y * x[j + 1];
      if (j + 2 < i) sum[2] -= a.z * x[j + 2];
      if (j + 3 < i) sum[3] -= a.w * x[j + 3];
    }
    x[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
}

// This simdgroup's 16 rows of T, which are zero right of the diagonal.
GPU_FN void load_inverse(ref<Tile<half>[4]> left, shared<half> own, uint simd, uint lane) {
  GPU_UNROLL for (uint j = 0; j < 4; ++j) {
    if (j <= simd) tile_load(left[j], own + j * 16, DeltaChunks::inverse_ld, lane);
  }
  simd_sync();
}

// c = T times two tiles of columns of `rows`.
GPU_FN void multiply_inverse(ref<Tile<float>> c0, ref<Tile<float>> c1, cref<Tile<half>[4]> left,
                             shared<half> rows, uint simd, uint lane) {
  tile_zero(c0);
  tile_zero(c1);
  GPU_UNROLL for (uint j = 0; j < 4; ++j) {
    if (j <= simd) {
      Tile<half> b0, b1;
      tile_load_right_transposed(b0, rows + j * 16 * DeltaChunks::ld, DeltaChunks::ld, lane);
      tile_load_right_transposed(b1, rows + j * 16 * DeltaChunks::ld + 16, DeltaChunks::ld, lane);
      tile_mma(c0, c1, left[j], b0, b1);
    }
  }
}

// 16 rows of 64 halves in a simdgroup's room to rows `stride` apart.
GPU_FN void store_halves(out<half> to, uint stride, shared<half> own, uint lane) {
  simd_sync();
  for (uint i = lane; i < 16 * 8; i += 32) {
    store16(to + i / 8 * stride + i % 8 * 8, load16(own + i / 8 * DeltaChunks::inverse_ld + i % 8 * 8));
  }
  simd_sync();
}

}  // namespace lily::gpu

GPU_KERNEL(DeltaChunks) {
  const uint dim = DeltaChunks::dim, chunk = DeltaChunks::chunk, ld = DeltaChunks::ld,
             inverse_ld = DeltaChunks::inverse_ld, simds = DeltaChunks::threads / 32;
  allow_next();
  wait_for_previous();
  uint first = t.group.x * chunk, head = t.group.y, key_head = head / (a.value_heads / a.key_heads);
  uint count = min(chunk, a.tokens - first), chunks = (a.tokens + chunk - 1) / chunk;
  ulong place = (ulong(head) * chunks + t.group.x) * chunk;
  uint key_stride = a.key_heads * dim, value_stride = a.value_heads * dim;
  in<float> keys = a.k + ulong(first) * key_stride + key_head * dim;
  in<float> queries = a.q + ulong(first) * key_stride + key_head * dim;
  in<float> values = a.v + ulong(first) * value_stride + head * dim;

  float largest = 0.0f;
  for (uint i = t.index; i < chunk * dim / 8; i += DeltaChunks::threads) {
    uint row = i / (dim / 8), d = i % (dim / 8) * 8;
    if (row < count) {
      in<float> v = values + ulong(row) * value_stride + d;
      float4 p = load4(v), q = load4(v + 4);
      float eight[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
      largest = max(largest, largest_of(eight));
    }
    store16(s.rows + row * ld + d, eight_halves(keys + ulong(row) * key_stride + d, row < count, 1.0f));
  }
  largest = simd_max(largest);
  if (t.lane == 0) s.largest[t.simd] = largest;
  if (t.index < chunk) {
    ulong at = ulong(first + t.index) * a.value_heads + head;
    s.log_decay[t.index] = t.index < count ? a.log_decay[at] : 0.0f;
    s.beta[t.index] = t.index < count ? a.beta[at] : 0.0f;
  }
  group_barrier();
  if (t.index < chunk) {
    // Every row adds up for itself, in the same order.
    float sum = 0.0f;
    for (uint j = 0; j <= t.index; ++j) sum += s.log_decay[j];
    s.decay[t.index] = sum;
    a.decay[place + t.index] = sum;
  }

  // Queries come by way of this simdgroup's room, 64 dimensions at a time.
  shared<half> inverse = (shared<half>)s.work, own = inverse + t.simd * 16 * inverse_ld;
  Tile<float> kk[4], qk[4];
  GPU_UNROLL for (uint n = 0; n < 4; ++n) {
    tile_zero(kk[n]);
    tile_zero(qk[n]);
  }
  for (uint part = 0; part < dim; part += 64) {
    simd_sync();
    GPU_UNROLL for (uint i = 0; i < 4; ++i) {
      uint row = i * 4 + t.lane / 8, d = t.lane % 8 * 8, token = t.simd * 16 + row;
      store16(own + row * inverse_ld + d,
              eight_halves(queries + ulong(token) * key_stride + part + d, token < count, 1.0f));
    }
    simd_sync();
    GPU_UNROLL for (uint j = 0; j < 4; ++j) {
      Tile<half> k, q;
      tile_load(k, s.rows + t.simd * 16 * ld + part + j * 16, ld, t.lane);
      tile_load(q, own + j * 16, inverse_ld, t.lane);
      GPU_UNROLL for (uint n = 0; n < 4; n += 2) {
        if (n <= t.simd) {  // tiles right of the diagonal are zero
          Tile<half> k0, k1;
          tile_load_right(k0, s.rows + n * 16 * ld + part + j * 16, ld, t.lane);
          tile_load_right(k1, s.rows + (n + 1) * 16 * ld + part + j * 16, ld, t.lane);
          tile_mma(kk[n], kk[n + 1], k, k0, k1);
          tile_mma(qk[n], qk[n + 1], q, k0, k1);
        }
      }
    }
  }
  group_barrier();  // the rooms become A
  Tile<half> p[4];
  GPU_UNROLL for (uint n = 0; n < 4; ++n) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      uint row = t.simd * 16 + tile_row(t.lane, i), column = n * 16 + tile_col(t.lane, i);
      float between = column <= row ? exp(s.decay[row] - s.decay[column]) : 0.0f;
      if (column < row) s.work[lower_row(row) + column] = s.beta[row] * between * kk[n].v[i];
      p[n].v[i] = half(between * qk[n].v[i]);
    }
  }
  group_barrier();

  float x[chunk];
  if (t.simd < 2) solve_column(x, s.work, t.index);
  group_barrier();
  if (t.simd < 2) {
    float factor = s.beta[t.index] * exp(s.decay[t.index]);
    GPU_UNROLL for (uint i = 0; i < chunk; ++i) inverse[i * inverse_ld + t.index] = half(x[i] * factor);
  }
  group_barrier();

  // W = T diag(beta exp(c)) K
  ulong own_place = place + t.simd * 16;
  Tile<half> left[4];
  load_inverse(left, own, t.simd, t.lane);
  GPU_UNROLL for (uint n = 0; n < 4; ++n) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      own[tile_row(t.lane, i) * inverse_ld + n * 16 + tile_col(t.lane, i)] = p[n].v[i];
    }
  }
  store_halves(a.p + own_place * chunk, chunk, own, t.lane);
  for (uint part = 0; part < dim; part += 64) {
    GPU_UNROLL for (uint n = 0; n < 4; n += 2) {
      Tile<float> c[2];
      multiply_inverse(c[0], c[1], left, s.rows + part + n * 16, t.simd, t.lane);
      GPU_UNROLL for (uint r = 0; r < 2; ++r) {
        GPU_UNROLL for (uint i = 0; i < 8; ++i) {
          own[tile_row(t.lane, i) * inverse_ld + (n + r) * 16 + tile_col(t.lane, i)] = half(c[r].v[i]);
        }
      }
    }
    store_halves(a.w + own_place * dim + part, dim, own, t.lane);
  }
  group_barrier();

  // U = T diag(beta) V
  float scale = row_scale(largest_of_group(s.largest, simds)), unscale = 1.0f / scale;
  if (t.simd < 2) {
    float factor = s.beta[t.index];
    GPU_UNROLL for (uint i = 0; i < chunk; ++i) inverse[i * inverse_ld + t.index] = half(x[i] * factor);
  }
  for (uint i = t.index; i < chunk * dim / 8; i += DeltaChunks::threads) {
    uint row = i / (dim / 8), d = i % (dim / 8) * 8;
    store16(s.rows + row * ld + d,
            eight_halves(values + ulong(row) * value_stride + d, row < count, unscale));
  }
  group_barrier();
  load_inverse(left, own, t.simd, t.lane);
  shared<float> sums = (shared<float>)own;  // 16 rows of 32, 36 apart
  for (uint part = 0; part < dim; part += 32) {
    Tile<float> c[2];
    multiply_inverse(c[0], c[1], left, s.rows + part, t.simd, t.lane);
    GPU_UNROLL for (uint r = 0; r < 2; ++r) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        sums[tile_row(t.lane, i) * (inverse_ld / 2) + r * 16 + tile_col(t.lane, i)] = c[r].v[i] * scale;
      }
    }
    simd_sync();
    for (uint i = t.lane; i < 16 * 8; i += 32) {
      store4(a.u + (own_place + i / 8) * dim + part + i % 8 * 4,
             load4(sums + i / 8 * (inverse_ld / 2) + i % 8 * 4));
    }
    simd_sync();
  }
}

namespace lily::gpu {

// 16 rows of kColumns halves on their way into this simdgroup's rows, which nobody else reads.
template <uint kColumns>
struct OwnRows {
  uint4 v[kColumns / 16];
};
template <uint kColumns>
GPU_FN void fetch_own_rows(ref<OwnRows<kColumns>> rows, in<half> from, uint lane) {
  GPU_UNROLL for (uint i = 0; i < kColumns / 16; ++i) rows.v[i] = load16(from + (i * 32 + lane) * 8);
}
template <uint kColumns>
GPU_FN void put_own_rows(cref<OwnRows<kColumns>> rows, shared<half> own, uint lane) {
  simd_sync();
  GPU_UNROLL for (uint i = 0; i < kColumns / 16; ++i) {
    uint at = (i * 32 + lane) * 8;
    store16(own + at / kColumns * DeltaChunkScan::ld + at % kColumns, rows.v[i]);
  }
  simd_sync();
}

// 16 rows of 128 floats, of which the first `count` exist, as halves; a row's factor is exp(last -
// decay[row]).
GPU_FN void put_own_rows(shared<half> own, in<float> from, uint stride, uint count, shared<float> decay,
                         float last, bool decays, uint lane) {
  simd_sync();
  for (uint i = lane; i < 16 * 32; i += 32) {
    uint row = i / 32, d = i % 32 * 4;
    float4 x = float4{0.0f, 0.0f, 0.0f, 0.0f};
    if (row < count) x = load4(from + ulong(row) * stride + d);
    x = x * (decays ? exp(last - decay[row]) : 1.0f);
    shared<half> to = own + row * DeltaChunkScan::ld + d;
    to[0] = half(x.x);
    to[1] = half(x.y);
    to[2] = half(x.z);
    to[3] = half(x.w);
  }
  simd_sync();
}

// 16 rows x 32 values of U.
GPU_FN void fetch_u(ref<Tile<float>[2]> u, in<float> from, uint lane) {
  GPU_UNROLL for (uint n = 0; n < 2; ++n) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      u[n].v[i] = from[tile_row(lane, i) * DeltaChunkScan::dim + n * 16 + tile_col(lane, i)];
    }
  }
}

}  // namespace lily::gpu

GPU_KERNEL(DeltaChunkScan) {
  const uint dim = DeltaChunkScan::dim, chunk = DeltaChunkScan::chunk, ld = DeltaChunkScan::ld,
             e_ld = DeltaChunkScan::e_ld, values = DeltaChunkScan::values,
             simds = DeltaChunkScan::threads / 32;
  allow_next();
  wait_for_previous();
  uint first_value = t.group.x * values, head = t.group.y, key_head = head / (a.value_heads / a.key_heads);
  uint chunks = (a.tokens + chunk - 1) / chunk, key_stride = a.key_heads * dim, slot = a.step[0] % a.ring;
  ulong state_size = ulong(a.value_heads) * dim * dim;
  ulong at = (ulong(head) * dim + first_value) * dim + t.simd * 32;  // this simdgroup's keys
  in<float> old_state = a.states + slot * state_size + at;
  out<float> new_state = a.states + (slot + 1) % a.ring * state_size + at;
  shared<half> own = s.rows + t.simd * 16 * ld;

  Tile<float> state[2][2];  // [16 values][16 keys]
  GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 2; ++n) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      state[r][n].v[i] = old_state[(r * 16 + tile_row(t.lane, i)) * dim + n * 16 + tile_col(t.lane, i)];
    }
  }

  // W and U of a chunk are fetched while the one before it ends.
  ulong place = ulong(head) * chunks * chunk + t.simd * 16;
  OwnRows<dim> w_rows;
  Tile<float> u[2];
  fetch_own_rows<dim>(w_rows, a.w + place * dim, t.lane);
  fetch_u(u, a.u + place * dim + first_value, t.lane);
  for (uint c = 0; c < chunks; ++c, place += chunk) {
    uint first = c * chunk + t.simd * 16;  // this simdgroup's tokens
    uint count = first < a.tokens ? min(a.tokens - first, 16u) : 0;
    ulong row_at = ulong(first) * key_stride + key_head * dim;
    if (t.index < chunk) s.decay[t.index] = a.decay[(ulong(head) * chunks + c) * chunk + t.index];
    float largest = 0.0f;
    GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      largest = max(largest, largest_of(state[r][n].v));
    }
    largest = simd_max(largest);
    if (t.lane == 0) s.state_largest[t.simd] = largest;
    group_barrier();
    float scale = row_scale(largest_of_group(s.state_largest, simds)), inverse = 1.0f / scale;
    GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        s.state[(r * 16 + tile_row(t.lane, i)) * ld + t.simd * 32 + n * 16 + tile_col(t.lane, i)] =
            half(state[r][n].v[i] * inverse);
      }
    }
    put_own_rows<dim>(w_rows, own, t.lane);
    group_barrier();

    Tile<float> e[2], y[2], pe[2];
    GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      tile_zero(e[n]);
      tile_zero(y[n]);
      tile_zero(pe[n]);
    }
    GPU_UNROLL for (uint j = 0; j < dim / 16; ++j) {
      Tile<half> w, s0, s1;
      tile_load(w, own + j * 16, ld, t.lane);
      tile_load_right(s0, s.state + j * 16, ld, t.lane);
      tile_load_right(s1, s.state + 16 * ld + j * 16, ld, t.lane);
      tile_mma(e[0], e[1], w, s0, s1);
    }
    largest = 0.0f;
    GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) e[n].v[i] = u[n].v[i] - e[n].v[i] * scale;
      largest = max(largest, largest_of(e[n].v));
    }
    largest = simd_max(largest);
    if (t.lane == 0) s.e_largest[t.simd] = largest;
    OwnRows<chunk> p_rows;
    fetch_own_rows<chunk>(p_rows, a.p + place * chunk, t.lane);
    put_own_rows(own, a.q + row_at, key_stride, count, s.decay, 0.0f, false, t.lane);
    GPU_UNROLL for (uint j = 0; j < dim / 16; ++j) {
      Tile<half> q, s0, s1;
      tile_load(q, own + j * 16, ld, t.lane);
      tile_load_right(s0, s.state + j * 16, ld, t.lane);
      tile_load_right(s1, s.state + 16 * ld + j * 16, ld, t.lane);
      tile_mma(y[0], y[1], q, s0, s1);
    }
    group_barrier();
    float e_scale = row_scale(largest_of_group(s.e_largest, simds)), e_inverse = 1.0f / e_scale;
    GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        s.e[(t.simd * 16 + tile_row(t.lane, i)) * e_ld + n * 16 + tile_col(t.lane, i)] =
            half(e[n].v[i] * e_inverse);
      }
    }
    put_own_rows<chunk>(p_rows, own, t.lane);
    if (c + 1 < chunks) {
      fetch_own_rows<dim>(w_rows, a.w + (place + chunk) * dim, t.lane);
      fetch_u(u, a.u + (place + chunk) * dim + first_value, t.lane);
    }
    group_barrier();

    GPU_UNROLL for (uint j = 0; j < chunk / 16; ++j) {
      if (j <= t.simd) {  // later tokens do not count
        Tile<half> p, e0, e1;
        tile_load(p, own + j * 16, ld, t.lane);
        tile_load_right_transposed(e0, s.e + j * 16 * e_ld, e_ld, t.lane);
        tile_load_right_transposed(e1, s.e + j * 16 * e_ld + 16, e_ld, t.lane);
        tile_mma(pe[0], pe[1], p, e0, e1);
      }
    }
    GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        uint row = tile_row(t.lane, i), value = first_value + n * 16 + tile_col(t.lane, i);
        if (row < count) {
          a.y[(ulong(first + row) * a.value_heads + head) * dim + value] =
              y[n].v[i] * (scale * exp(s.decay[t.simd * 16 + row])) + pe[n].v[i] * e_scale;
        }
      }
    }
    float last = s.decay[chunk - 1], kept = exp(last);
    put_own_rows(own, a.k + row_at, key_stride, count, s.decay + t.simd * 16, last, true, t.lane);
    group_barrier();

    Tile<float> added[2][2];
    GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 2; ++n) tile_zero(added[r][n]);
    GPU_UNROLL for (uint j = 0; j < chunk / 16; ++j) {
      Tile<half> k0, k1;
      tile_load_right_transposed(k0, s.rows + j * 16 * ld + t.simd * 32, ld, t.lane);
      tile_load_right_transposed(k1, s.rows + j * 16 * ld + t.simd * 32 + 16, ld, t.lane);
      GPU_UNROLL for (uint r = 0; r < 2; ++r) {
        Tile<half> errors;
        tile_load_transposed(errors, s.e + j * 16 * e_ld + r * 16, e_ld, t.lane);
        tile_mma(added[r][0], added[r][1], errors, k0, k1);
      }
    }
    GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 2; ++n) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        state[r][n].v[i] = state[r][n].v[i] * kept + added[r][n].v[i] * e_scale;
      }
    }
  }

  GPU_UNROLL for (uint r = 0; r < 2; ++r) GPU_UNROLL for (uint n = 0; n < 2; ++n) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      new_state[(r * 16 + tile_row(t.lane, i)) * dim + n * 16 + tile_col(t.lane, i)] = state[r][n].v[i];
    }
  }
}
