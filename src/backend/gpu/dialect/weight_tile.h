// Weight blocks (weights.h) as matrix tiles, dequantized in registers where they are multiplied.
//
//   tile_place(k)                              where input k of a group of 64 lies in rows that meet the
//   tiles fetch_weights(block, group, lane)          a lane's share of 16 rows x 64 inputs, on its way from
//   memory weight_tiles(w, share, guard, lane)        the same as four left operands: places 16 j to 16 j +
//   15 in w[j]
//
// A lane owns 16 inputs of two rows, so the places of a group are its inputs in another order, in which those
// 16 are the lane's own elements of the four tiles. Rows of x are stored in that order by whoever writes
// them.
//
// guard is a power of two that brings a matrix to where halves are normal: scale and bias are exact halves
// then, and a weight is rounded once. The product is multiplied with 1 / guard.
#pragma once

#include "backend/gpu/dialect/tile.h"

namespace lily::gpu {

// Input 16 c + 8 h + 4 e + j has place 16 j + 8 h + 2 c + e.
GPU_FN uint tile_place(uint k) { return (k & 3) * 16 + (k >> 3 & 1) * 8 + (k >> 4 & 3) * 2 + (k >> 2 & 1); }

// Eight halves, inputs 8 e to 8 e + 7 of a row, at their places.
GPU_FN void store_places(out<uint> row, uint e, cref<float[8]> v) {
  out<uint> group = row + e / 8 * 32 + tile_place(e % 8 * 8) / 2;
  GPU_UNROLL for (uint j = 0; j < 4; ++j) group[j * 8] = half_pack(v[j], v[j + 4]);
}

#if defined(__CUDACC__)
struct WeightShare {
  uint4 codes;
  uint2 factors;
};
GPU_FN WeightShare fetch_weights(in<uchar> block, uint group, uint lane) {
  return WeightShare{load16(block + group * 512 + lane * 16),
                     load8(block + WeightBlock::code_bytes + ((lane & ~3u) + group) * 8)};
}
// Codes in bits 0 to 3 and 16 to 19: or-ed into 0x6400 they are 1024 + code.
GPU_FN uint dequantize_pair(uint word, __half2 scale, __half2 bias) {
  __half2 code = __hsub2(as_type<__half2>((word & 0x000f000fu) | 0x64006400u), as_type<__half2>(0x64006400u));
  return as_type<uint>(__hfma2(code, scale, bias));
}
GPU_FN void weight_tiles(ref<Tile<half>[4]> w, cref<WeightShare> share, float guard, uint lane) {
  __half2 low_scale = __float2half2_rn(bf16_lo(share.factors.x) * guard);
  __half2 low_bias = __float2half2_rn(bf16_hi(share.factors.x) * guard);
  __half2 high_scale = __float2half2_rn(bf16_lo(share.factors.y) * guard);
  __half2 high_bias = __float2half2_rn(bf16_hi(share.factors.y) * guard);
  GPU_UNROLL for (uint j = 0; j < 4; ++j) {
    uint* v = reinterpret_cast<uint*>(w[j].v);
    v[0] = dequantize_pair(share.codes.x >> (4 * j), low_scale, low_bias);
    v[1] = dequantize_pair(share.codes.z >> (4 * j), high_scale, high_bias);
    v[2] = dequantize_pair(share.codes.y >> (4 * j), low_scale, low_bias);
    v[3] = dequantize_pair(share.codes.w >> (4 * j), high_scale, high_bias);
  }
}
#else
struct WeightShare {
  in<uchar> block;
  uint group;
};
GPU_FN WeightShare fetch_weights(in<uchar> block, uint group, uint) { return WeightShare{block, group}; }
GPU_FN void weight_tiles(ref<Tile<half>[4]> w, cref<WeightShare> share, float guard, uint lane) {
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    uint row = tile_row(lane, i), column = tile_col(lane, i), first = (row & 7) * 4;
    uint2 words = load8(share.block + share.group * 512 + (first + (column >> 1 & 3)) * 16 + (row >> 3) * 8);
    uint2 factors = load8(share.block + WeightBlock::code_bytes + (first + share.group) * 8);
    uint word = column < 8 ? words.x : words.y, factor = row < 8 ? factors.x : factors.y;
    float scale = float(half(bf16_lo(factor) * guard)), bias = float(half(bf16_hi(factor) * guard));
    GPU_UNROLL for (uint j = 0; j < 4; ++j) {
      w[j].v[i] = half(float(word >> ((column & 1) * 16 + 4 * j) & 15u) * scale + bias);
    }
  }
}
#endif

}  // namespace lily::gpu
