// Rows of the KV cache on their way into threadgroup memory, as halves.
//
// 128 threads move 32 rows of 256. A row is fetched into registers first, so that it is on its way while the
// rows before it are multiplied.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/attention_tiles.h"

namespace lily::gpu {

// A thread's share of them: halves, or 8-bit codes.
template <class Element>
struct CacheShare;
template <>
struct CacheShare<half> {
  uint4 v[8];
};
template <>
struct CacheShare<uchar> {
  uint4 v[4];
};

// Rows from `count` on are zeros: what lies there may be no number.
GPU_FN void fetch_rows(ref<CacheShare<half>> share, in<half> rows, uint count, uint index) {
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    uint at = (i * CacheRows::threads + index) * 8;
    share.v[i] = uint4{0, 0, 0, 0};
    if (at / CacheRows::dim < count) share.v[i] = load16(rows + at);
  }
}
GPU_FN void fetch_rows(ref<CacheShare<uchar>> share, in<uchar> rows, uint count, uint index) {
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    uint at = (i * CacheRows::threads + index) * 16;
    share.v[i] = uint4{0, 0, 0, 0};
    if (at / CacheRows::dim < count) share.v[i] = load16(rows + at);
  }
}

// Two signed bytes of a word, from bit `shift` on, times `scale`.
GPU_FN uint code_pair(uint word, uint shift, float scale) {
  return half_pack(float(int(word << (24 - shift)) >> 24) * scale,
                   float(int(word << (16 - shift)) >> 24) * scale);
}
GPU_FN uint4 eight_codes(uint first, uint second, float scale) {
  return uint4{code_pair(first, 0, scale), code_pair(first, 16, scale), code_pair(second, 0, scale),
               code_pair(second, 16, scale)};
}

GPU_FN void put_rows(cref<CacheShare<half>> share, shared<half> to, uint index) {
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    uint at = (i * CacheRows::threads + index) * 8;
    store16(to + at / CacheRows::dim * CacheRows::ld + at % CacheRows::dim, share.v[i]);
  }
}
// Codes as whole numbers; the scales are the caller's.
GPU_FN void put_rows(cref<CacheShare<uchar>> share, shared<half> to, uint index) {
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    uint at = (i * CacheRows::threads + index) * 16;
    shared<half> row = to + at / CacheRows::dim * CacheRows::ld + at % CacheRows::dim;
    store16(row, eight_codes(share.v[i].x, share.v[i].y, 1.0f));
    store16(row + 8, eight_codes(share.v[i].z, share.v[i].w, 1.0f));
  }
}

}  // namespace lily::gpu
