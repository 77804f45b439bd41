// DeltaNet's chunks after each other on Hopper, under the contract of DeltaChunkScan.
//
// What a chunk needs (W, P, Q, K, 32 columns of U) is copied into shared memory while the chunk before it is
// computed: without that each of 64 chunks would wait for memory several times. A block has eight warps: of
// the products with the state a warp has 16 tokens and 16 values, of the state 16 keys and all 32 values, in
// registers.
#include "backend/gpu/cuda/kernels/shapes.h"
#include "backend/gpu/cuda/kernels/wgmma.h"
#include "backend/gpu/dialect/overlap.h"
#include "backend/gpu/dialect/tile.h"
#include "backend/gpu/kernels/args/delta_chunks.h"
#include "backend/gpu/kernels/row_scale.h"

namespace lily::gpu::hopper {

using Scan = DeltaScan256;

// `bytes` per row of `rows` rows, `stride` bytes apart in device memory and `ld` in shared memory; rows from
// `count` on are zeros.
template <uint kRows, uint kBytes, uint kLd>
GPU_FN void fetch_rows(uint to, const void* from, ulong stride, uint count) {
  GPU_UNROLL for (uint i = 0; i < kRows * (kBytes / 16) / Scan::threads; ++i) {
    uint at = i * Scan::threads + threadIdx.x, row = at / (kBytes / 16), chunk = at % (kBytes / 16);
    bool real = row < count;
    copy_chunk(to + row * kLd + chunk * 16,
               static_cast<const uchar*>(from) + (real ? row : 0) * stride + chunk * 16, true, real);
  }
}

struct ChunkSource {
  const float *q, *k;  // of the key head
  const half *w, *p;   // of the value head
  const float *u, *decay;
  uint tokens, key_stride;
};
GPU_FN void fetch_chunk(uint buffer, const ChunkSource& a, uint chunk) {
  const uint first = chunk * Scan::chunk, count = min(a.tokens - first, Scan::chunk + 0u);
  const ulong place = first;
  fetch_rows<Scan::chunk, Scan::dim * 2, Scan::w_ld>(buffer + Scan::w_at, a.w + place * Scan::dim,
                                                     Scan::dim * 2, Scan::chunk);
  fetch_rows<Scan::chunk, Scan::chunk * 2, Scan::p_ld>(buffer + Scan::p_at, a.p + place * Scan::chunk,
                                                       Scan::chunk * 2, Scan::chunk);
  fetch_rows<Scan::chunk, Scan::values * 4, Scan::u_ld>(buffer + Scan::u_at, a.u + place * Scan::dim,
                                                        Scan::dim * 4, Scan::chunk);
  fetch_rows<Scan::chunk, Scan::dim * 4, Scan::q_ld>(buffer + Scan::q_at, a.q + place * a.key_stride,
                                                     a.key_stride * 4ul, count);
  fetch_rows<Scan::chunk, Scan::dim * 4, Scan::k_ld>(buffer + Scan::k_at, a.k + place * a.key_stride,
                                                     a.key_stride * 4ul, count);
  const uint piece = threadIdx.x % 16;
  copy_chunk(buffer + Scan::decay_at + piece * 16, a.decay + place + piece * 4, threadIdx.x < 16);
  commit_copies();
}

// A left operand from 16 rows of floats.
GPU_FN void load_floats(Tile<half>& tile, const float* rows, uint ld, uint lane) {
  GPU_UNROLL for (uint i = 0; i < 8; i += 2) {
    float2 pair = *reinterpret_cast<const float2*>(rows + tile_row(lane, i) * ld + tile_col(lane, i));
    *reinterpret_cast<uint*>(tile.v + i) = half_pack(pair.x, pair.y);
  }
}
// A right operand from floats stored [input][output].
GPU_FN void load_floats_transposed(Tile<half>& tile, const float* rows, uint ld, uint lane) {
  GPU_UNROLL for (uint i = 0; i < 8; i += 2) {
    const float* at = rows + tile_col(lane, i) * ld + tile_row(lane, i);
    *reinterpret_cast<uint*>(tile.v + i) = half_pack(at[0], at[ld]);
  }
}

LILY_HOPPER_KERNEL(DeltaChunkScan, DeltaScan256::threads, 1) {
  constexpr uint kDim = Scan::dim, kChunk = Scan::chunk, kStateLd = Scan::state_ld / 2, kELd = Scan::e_ld / 2;
  allow_next();
  wait_for_previous();
  const uint lane = threadIdx.x & 31, warp = threadIdx.x >> 5, first_value = blockIdx.x * Scan::values;
  const uint head = blockIdx.y, key_head = head / (a.value_heads / a.key_heads);
  const uint chunks = (a.tokens + kChunk - 1) / kChunk, slot = a.step[0] % a.ring;
  const uint rows = warp % 4 * 16, values = warp / 4 * 16, keys = warp * 16;  // this warp's
  const ulong place = ulong(head) * chunks * kChunk, state_size = ulong(a.value_heads) * kDim * kDim;
  const ulong state_at = (ulong(head) * kDim + first_value) * kDim + keys;
  const ChunkSource source{a.q + key_head * kDim,
                           a.k + key_head * kDim,
                           a.w + place * kDim,
                           a.p + place * kChunk,
                           a.u + place * kDim + first_value,
                           a.decay + place,
                           a.tokens,
                           a.key_heads * kDim};
  const uint memory = shared_address(hopper_memory);
  half* const shared_state = reinterpret_cast<half*>(hopper_memory + Scan::state_at);
  half* const shared_e = reinterpret_cast<half*>(hopper_memory + Scan::e_at);  // E
  half* const decayed_e = shared_e + kChunk * kELd;                            // diag(exp(c_last - c)) E
  float* const state_largest = reinterpret_cast<float*>(hopper_memory + Scan::largest_at);
  float* const e_largest = state_largest + Scan::threads / 32;

  fetch_chunk(memory, source, 0);
  Tile<float> state[2];  // [16 values][16 keys] each
  float largest = 0.0f;
  GPU_UNROLL for (uint r = 0; r < 2; ++r) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      state[r].v[i] =
          a.states[slot * state_size + state_at + (r * 16 + tile_row(lane, i)) * kDim + tile_col(lane, i)];
    }
    largest = fmaxf(largest, largest_of(state[r].v));
  }

  for (uint chunk = 0; chunk < chunks; ++chunk) {
    uchar* buffer = hopper_memory + (chunk & 1) * Scan::buffer_bytes;
    half* w = reinterpret_cast<half*>(buffer + Scan::w_at) + rows * (Scan::w_ld / 2);
    half* p = reinterpret_cast<half*>(buffer + Scan::p_at) + rows * (Scan::p_ld / 2);
    const float* u = reinterpret_cast<const float*>(buffer + Scan::u_at);
    const float* q = reinterpret_cast<const float*>(buffer + Scan::q_at) + rows * (Scan::q_ld / 4);
    const float* k = reinterpret_cast<const float*>(buffer + Scan::k_at);
    const float* decay = reinterpret_cast<const float*>(buffer + Scan::decay_at);
    largest = simd_max(largest);
    if (lane == 0) state_largest[warp] = largest;
    wait_copies<0>();
    __syncthreads();
    if (chunk + 1 < chunks) fetch_chunk(memory + (chunk + 1 & 1) * Scan::buffer_bytes, source, chunk + 1);
    const float scale = row_scale(largest_of_group(state_largest, Scan::threads / 32)),
                inverse = 1.0f / scale;
    GPU_UNROLL for (uint r = 0; r < 2; ++r) {
      GPU_UNROLL for (uint i = 0; i < 8; i += 2) {
        half* at = shared_state + (r * 16 + tile_row(lane, i)) * kStateLd + keys + tile_col(lane, i);
        *reinterpret_cast<uint*>(at) = half_pack(state[r].v[i] * inverse, state[r].v[i + 1] * inverse);
      }
    }
    __syncthreads();

    Tile<float> e, y, pe;
    tile_zero(e);
    tile_zero(y);
    tile_zero(pe);
    GPU_UNROLL for (uint j = 0; j < kDim / 16; ++j) {
      Tile<half> left, s;
      tile_load_right(s, shared_state + values * kStateLd + j * 16, kStateLd, lane);
      tile_load(left, w + j * 16, Scan::w_ld / 2, lane);
      tile_mma(e, left, s);
      load_floats(left, q + j * 16, Scan::q_ld / 4, lane);
      tile_mma(y, left, s);
    }
    largest = 0.0f;
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      float added = u[(rows + tile_row(lane, i)) * (Scan::u_ld / 4) + values + tile_col(lane, i)];
      e.v[i] = added - e.v[i] * scale;
    }
    largest = simd_max(largest_of(e.v));
    if (lane == 0) e_largest[warp] = largest;
    __syncthreads();
    const float e_scale = row_scale(largest_of_group(e_largest, Scan::threads / 32)),
                e_inverse = 1.0f / e_scale, last = decay[kChunk - 1];
    GPU_UNROLL for (uint i = 0; i < 8; i += 2) {
      const uint row = rows + tile_row(lane, i), at = row * kELd + values + tile_col(lane, i);
      const float low = e.v[i] * e_inverse, high = e.v[i + 1] * e_inverse, left = exp(last - decay[row]);
      *reinterpret_cast<uint*>(shared_e + at) = half_pack(low, high);
      *reinterpret_cast<uint*>(decayed_e + at) = half_pack(low * left, high * left);
    }
    __syncthreads();

    Tile<float> added[2];
    tile_zero(added[0]);
    tile_zero(added[1]);
    GPU_UNROLL for (uint j = 0; j < kChunk / 16; ++j) {
      Tile<half> left, right;
      if (j * 16 <= rows) {  // later tokens do not count
        tile_load(left, p + j * 16, Scan::p_ld / 2, lane);
        tile_load_right_transposed(right, shared_e + j * 16 * kELd + values, kELd, lane);
        tile_mma(pe, left, right);
      }
      load_floats_transposed(right, k + j * 16 * (Scan::k_ld / 4) + keys, Scan::k_ld / 4, lane);
      GPU_UNROLL for (uint r = 0; r < 2; ++r) {
        tile_load_transposed(left, decayed_e + j * 16 * kELd + r * 16, kELd, lane);
        tile_mma(added[r], left, right);
      }
    }
    const float kept = exp(last);
    largest = 0.0f;
    GPU_UNROLL for (uint r = 0; r < 2; ++r) {
      GPU_UNROLL for (uint i = 0; i < 8; ++i) {
        state[r].v[i] = state[r].v[i] * kept + added[r].v[i] * e_scale;
      }
      largest = fmaxf(largest, largest_of(state[r].v));
    }
    GPU_UNROLL for (uint i = 0; i < 8; i += 2) {
      const uint row = rows + tile_row(lane, i), token = chunk * kChunk + row;
      const float before = scale * exp(decay[row]);
      if (token < a.tokens) {
        float* to =
            a.y + (ulong(token) * a.value_heads + head) * kDim + first_value + values + tile_col(lane, i);
        *reinterpret_cast<float2*>(to) =
            float2{y.v[i] * before + pe.v[i] * e_scale, y.v[i + 1] * before + pe.v[i + 1] * e_scale};
      }
    }
  }

  GPU_UNROLL for (uint r = 0; r < 2; ++r) {
    GPU_UNROLL for (uint i = 0; i < 8; ++i) {
      a.states[(slot + 1) % a.ring * state_size + state_at + (r * 16 + tile_row(lane, i)) * kDim +
               tile_col(lane, i)] = state[r].v[i];
    }
  }
}

}  // namespace lily::gpu::hopper
