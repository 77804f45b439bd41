// Products of many token rows with weight blocks on Hopper's matrix unit, under the contracts of
// args/multiply.h and args/expert_tiles.h.
//
// A block is two warpgroups, eight warps with a row tile of 16 rows each, and up to 128 token rows. Weights
// are the left operand: a lane finds its codes of a block where the unit wants them, dequantizes them in
// registers and never writes them back. Token rows are the right operand; their inputs already have the
// weights' order (tile_place). Both come through a ring of stages of 64 inputs, filled two steps less than
// its length ahead. Two blocks share a multiprocessor: one dequantizes or stores while the other multiplies.
#pragma once

#include "backend/gpu/cuda/kernels/shapes.h"
#include "backend/gpu/cuda/kernels/wgmma.h"
#include "backend/gpu/dialect/math.h"
#include "backend/gpu/dialect/overlap.h"
#include "backend/gpu/kernels/args/expert_tiles.h"
#include "backend/gpu/kernels/args/multiply.h"

namespace lily::gpu::hopper {

// What a warp multiplies: its own row tile (of a pair, gate in the even warp and up in the odd one).
struct WarpTile {
  const uchar* blocks;  // in device memory, part after part
  float guard;          // of the rows that come first in the fragment
  float second_guard;
};

// Two codes, 16 bits apart under `mask`, as halves times scale plus bias: or-ed into 0x6400 they are 1024 +
// code, or 1024 + 16 code with a sixteenth of the scale. Volatile: moved into the products' shadow by the
// compiler it makes ptxas serialize them.
template <uint kMask>
GPU_FN uint weight_pair(uint word, uint scale, uint bias) {
  uint code, weight;
  asm volatile("lop3.b32 %0, %1, %2, 0x64006400, 0xea;" : "=r"(code) : "r"(word), "n"(kMask));
  asm volatile("sub.rn.f16x2 %0, %1, %2;" : "=r"(code) : "r"(code), "r"(0x64006400u));
  asm volatile("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(weight) : "r"(code), "r"(scale), "r"(bias));
  return weight;
}
// The four pairs of a word: codes n and n + 4.
GPU_FN void weight_pairs(uint (&pairs)[4], uint word, uint scale, uint sixteenth, uint bias) {
  pairs[0] = weight_pair<0x000f000fu>(word, scale, bias);
  pairs[1] = weight_pair<0x00f000f0u>(word, sixteenth, bias);
  pairs[2] = weight_pair<0x000f000fu>(word >> 8, scale, bias);
  pairs[3] = weight_pair<0x00f000f0u>(word >> 8, sixteenth, bias);
}
GPU_FN uint twice_half(float x) {
  uint pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %1;" : "=r"(pair) : "f"(x));
  return pair;
}

// Words of a row's 16 codes of a group, and of the row eight below or, of a pair, the same row of the other
// matrix.
struct RowCodes {
  uint2 first, second;
};
GPU_FN void left_operands(uint (&a)[4][4], RowCodes codes, uint first_factors, uint second_factors,
                          float guard, float second_guard) {
  float scale = bf16_lo(first_factors) * guard, second_scale = bf16_lo(second_factors) * second_guard;
  uint bias = twice_half(bf16_hi(first_factors) * guard);
  uint second_bias = twice_half(bf16_hi(second_factors) * second_guard);
  uint pairs[4][4];
  weight_pairs(pairs[0], codes.first.x, twice_half(scale), twice_half(scale * 0.0625f), bias);
  weight_pairs(pairs[1], codes.second.x, twice_half(second_scale), twice_half(second_scale * 0.0625f),
               second_bias);
  weight_pairs(pairs[2], codes.first.y, twice_half(scale), twice_half(scale * 0.0625f), bias);
  weight_pairs(pairs[3], codes.second.y, twice_half(second_scale), twice_half(second_scale * 0.0625f),
               second_bias);
  GPU_UNROLL for (uint i = 0; i < 4; ++i) { GPU_UNROLL for (uint j = 0; j < 4; ++j) a[j][i] = pairs[i][j]; }
}

// c [64 rows of the warpgroup][kTokens] = weights * x, x rows as rows_at in shared memory says. kPairs: the
// fragment's first eight rows are gate's, the others up's; warps 2 p and 2 p + 1 share row tile p of both.
template <uint kTokens, bool kPairs>
GPU_FN void multiply_rows(float (&c)[kTokens / 2], WarpTile tile, const half* x, uint inputs, uint planes) {
  constexpr uint kStages = stages<kTokens>(), kAhead = kStages - 2,
                 kStageBytes = kTokens * kRowBytes + Multiply128::weight_bytes;
  constexpr uint kCopies = (kTokens * 8 + Multiply128::threads - 1) / Multiply128::threads;
  const uint index = threadIdx.x, lane = index & 31, warp = index >> 5;
  const uint memory = shared_address(hopper_memory), plane_shift = planes - 1;
  const uint steps = (inputs + WeightBlock::inputs - 1) / WeightBlock::inputs * planes * 4;
  const uint* rows = reinterpret_cast<const uint*>(hopper_memory + Multiply128::rows_at);
  uint from[kCopies];  // this thread's chunks of token rows, in bytes from x on
  GPU_UNROLL for (uint i = 0; i < kCopies; ++i) {
    from[i] = rows[min(i * 32 + index / 8, kTokens - 1)] * (inputs * 2) + index % 8 * 16;
  }
  const uint to = swizzled(index / 8, index % 8);
  const uchar* lane_blocks = tile.blocks + lane * 16;

  // Groups that a row lacks meet weights of zero, so the last one stands for them.
  auto fetch = [&](uint step, uint slot) {
    const bool live = step < steps;
    const uint part = step / 4, group = min((part >> plane_shift) * 4 + step % 4, inputs / kRowHalves - 1);
    const uint stage = memory + slot * kStageBytes;
    const uchar* rows_from = reinterpret_cast<const uchar*>(x) + group * kRowBytes;
    GPU_UNROLL for (uint i = 0; i < kCopies; ++i) {
      copy_chunk(stage + to + i * 32 * kRowBytes, rows_from + from[i], live && i * 32 + index / 8 < kTokens);
    }
    const uchar* block = lane_blocks + ulong(part) * WeightBlock::bytes;
    copy_chunk(stage + kTokens * kRowBytes + index * 16, block + step % 4 * 512, live);
    copy_chunk(memory + Multiply128::factors_at +
                   part % Multiply128::factor_slots * Multiply128::factor_bytes + warp * 256 + lane * 16,
               block + WeightBlock::code_bytes, live && step % 4 == 0 && lane < 16);
    commit_copies();
  };

  GPU_UNROLL for (uint i = 0; i < kTokens / 2; ++i) c[i] = 0.0f;
  for (uint step = 0; step < kAhead; ++step) fetch(step, step);
  uint a[2][4][4], slot = 0, ahead = kAhead;
  for (uint first = 0; first < steps; first += 4) {
    const uchar* factors = hopper_memory + Multiply128::factors_at +
                           first / 4 % Multiply128::factor_slots * Multiply128::factor_bytes;
    GPU_UNROLL for (uint group = 0; group < 4; ++group) {
      uint(&operand)[4][4] = a[group & 1];
      wait_copies<kAhead - 1>();
      publish_writes();
      wait_products<1>();  // of the step before the last: its stage and its operand are free
      __syncthreads();
      fetch(first + group + kAhead, ahead);
      const uchar* codes =
          hopper_memory + slot * kStageBytes + kTokens * kRowBytes + warp_codes(warp, lane, kPairs);
      const uchar* lane_factors = factors + warp_factors(warp, lane, group, kPairs);
      if (kPairs) {
        RowCodes words{*reinterpret_cast<const uint2*>(codes), *reinterpret_cast<const uint2*>(codes + 512)};
        left_operands(operand, words, *reinterpret_cast<const uint*>(lane_factors),
                      *reinterpret_cast<const uint*>(lane_factors + 256), tile.guard, tile.second_guard);
      } else {
        uint4 words = *reinterpret_cast<const uint4*>(codes);
        uint2 both = *reinterpret_cast<const uint2*>(lane_factors);
        left_operands(operand, RowCodes{uint2{words.x, words.y}, uint2{words.z, words.w}}, both.x, both.y,
                      tile.guard, tile.second_guard);
      }
      begin_products();
      ulong right = outer_rows(memory + slot * kStageBytes);
      GPU_UNROLL for (uint j = 0; j < 4; ++j) Product<kTokens>::add(c, operand[j], right + j * 2);
      commit_products();
      slot = slot + 1 == kStages ? 0 : slot + 1;
      ahead = ahead + 1 == kStages ? 0 : ahead + 1;
    }
  }
  wait_products<0>();
  wait_copies<0>();
}

// The blocks of a row tile; of the last one for tiles that do not exist.
GPU_FN const uchar* tile_blocks_of(const uchar* weights, uint tile, uint tiles, uint inputs, uint planes) {
  return weights + ulong(min(tile, tiles - 1)) *
                       ((inputs + WeightBlock::inputs - 1) / WeightBlock::inputs * planes) *
                       WeightBlock::bytes;
}

// Fills in which rows of x a block has, and their scales: row_of(i) of the first `count`, the last one again
// beyond.
template <class Row>
GPU_FN void set_rows(Row row_of, const float* scale, uint count) {
  uint* rows = reinterpret_cast<uint*>(hopper_memory + Multiply128::rows_at);
  float* scales = reinterpret_cast<float*>(hopper_memory + Multiply128::scales_at);
  if (threadIdx.x < Multiply128::tokens) {
    uint row = row_of(min(threadIdx.x, count - 1));
    rows[threadIdx.x] = row;
    scales[threadIdx.x] = scale[row];
  }
  __syncthreads();
}
GPU_FN float row_scale_of(uint token) {
  return reinterpret_cast<const float*>(hopper_memory + Multiply128::scales_at)[token];
}

// Calls work.run<n>() with the fewest token columns, of 16, 32, 64 and 128, that hold `count`.
template <class Work>
GPU_FN void with_columns(uint count, Work work) {
  if (count > 64) {
    work.template run<128>();
  } else if (count > 32) {
    work.template run<64>();
  } else if (count > 16) {
    work.template run<32>();
  } else {
    work.template run<16>();
  }
}

// y [token][stride] = W x or += W x for tokens first to first + count of the pass.
template <bool kAdd>
struct DenseProduct {
  const uchar* weights;
  const half* x;
  float* y;
  uint inputs, planes, tiles, stride, first, count;
  float guard;

  template <uint kTokens>
  __device__ __forceinline__ void run() {
    uint tile = blockIdx.x * Multiply128::tiles + threadIdx.x / 32, lane = threadIdx.x & 31;
    constexpr uint kBatch = kTokens / 2 < 16 ? kTokens / 2 : 16;
    float c[kTokens / 2], factor = 1.0f / guard;
    multiply_rows<kTokens, false>(
        c, WarpTile{tile_blocks_of(weights, tile, tiles, inputs, planes), guard, guard}, x, inputs, planes);
    if (tile >= tiles) return;
    float* rows = y + tile * 16;
    // 16 values at a time: a store holds up the loads behind it.
    GPU_UNROLL for (uint part = 0; part < kTokens / 2; part += kBatch) {
      float before[kBatch];
      GPU_UNROLL for (uint i = 0; i < kBatch; ++i) {
        uint token = accumulator_column(lane, part + i);
        before[i] = 0.0f;
        if (kAdd && token < count) before[i] = rows[ulong(first + token) * stride + accumulator_row(lane, i)];
      }
      GPU_UNROLL for (uint i = 0; i < kBatch; ++i) {
        uint token = accumulator_column(lane, part + i);
        float value = before[i] + c[part + i] * (row_scale_of(token) * factor);
        if (token < count) rows[ulong(first + token) * stride + accumulator_row(lane, i)] = value;
      }
    }
  }
};

// y [first + token][tiles * 16] = silu(gate x) * (up x).
struct GatedProduct {
  const uchar *gate, *up;
  const half* x;
  float* y;
  uint inputs, tiles, first, count;
  float gate_guard, up_guard;

  template <uint kTokens>
  __device__ __forceinline__ void run() {
    uint warp = threadIdx.x / 32, tile = blockIdx.x * (Multiply128::tiles / 2) + warp / 2,
         lane = threadIdx.x & 31;
    float c[kTokens / 2];
    multiply_rows<kTokens, true>(
        c,
        WarpTile{tile_blocks_of((warp & 1) == 0 ? gate : up, tile, tiles, inputs, 1), gate_guard, up_guard},
        x, inputs, 1);
    if (tile >= tiles) return;
    float* row = y + tile * 16 + (warp & 1) * 8 + lane / 4;
    float gate_factor = 1.0f / gate_guard, up_factor = 1.0f / up_guard;
    GPU_UNROLL for (uint n = 0; n < kTokens / 8; ++n) {
      GPU_UNROLL for (uint i = 0; i < 2; ++i) {
        uint token = accumulator_column(lane, n * 4 + i);
        if (token < count) {
          float scale = row_scale_of(token);
          float gated = silu(c[n * 4 + i] * (scale * gate_factor));
          row[ulong(first + token) * (tiles * 16)] = gated * (c[n * 4 + 2 + i] * (scale * up_factor));
        }
      }
    }
  }
};

// y [order[first + token]][tiles * 16] = W x / guard as halves, which meet in shared memory and leave 16
// bytes at a time.
struct ScatteredProduct {
  const uchar* weights;
  const half* x;
  half* y;
  const uint* order;
  uint inputs, tiles, first, count;
  float guard;

  template <uint kTokens>
  __device__ __forceinline__ void run() {
    constexpr uint kLd = Multiply128::tiles * 16 + 8;  // halves of a token's row in shared memory
    uint warp = threadIdx.x / 32, tile = blockIdx.x * Multiply128::tiles + warp, lane = threadIdx.x & 31;
    float c[kTokens / 2], factor = 1.0f / guard;
    multiply_rows<kTokens, false>(c, WarpTile{tile_blocks_of(weights, tile, tiles, inputs, 1), guard, guard},
                                  x, inputs, 1);
    __syncthreads();
    half* rows = reinterpret_cast<half*>(hopper_memory);
    GPU_UNROLL for (uint n = 0; n < kTokens / 8; ++n) {
      GPU_UNROLL for (uint i = 0; i < 4; ++i) {
        uint token = accumulator_column(lane, n * 4 + i);
        rows[token * kLd + warp * 16 + accumulator_row(lane, i)] = __float2half_rn(c[n * 4 + i] * factor);
      }
    }
    __syncthreads();
    for (uint i = threadIdx.x; i < count * (Multiply128::tiles * 2); i += Multiply128::threads) {
      uint token = i / (Multiply128::tiles * 2), chunk = i % (Multiply128::tiles * 2);
      uint column = blockIdx.x * (Multiply128::tiles * 16) + chunk * 8;
      if (column < tiles * 16) {
        store16(y + ulong(order[first + token]) * (tiles * 16) + column,
                load16(rows + token * kLd + chunk * 8));
      }
    }
  }
};

// The positions of an expert's tile (ExpertTiles) that a block takes: two tiles in one, so every other has
// none.
struct ExpertRows {
  uint expert, first, count;
};
GPU_FN ExpertRows expert_rows(const uint* offset, const uint* tile_expert, const uint* tile_first) {
  uint expert = tile_expert[blockIdx.y];
  if (expert == ~0u) return ExpertRows{0, 0, 0};
  uint first = tile_first[blockIdx.y], before = first - offset[expert];
  if (before % Multiply128::tokens != 0) return ExpertRows{0, 0, 0};
  return ExpertRows{expert, first, min(offset[expert + 1] - first, Multiply128::tokens + 0u)};
}

}  // namespace lily::gpu::hopper
