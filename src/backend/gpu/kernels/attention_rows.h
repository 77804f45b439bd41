// What a head's row goes through on its way from the projection: norm, rotation, codes. A simdgroup has a
// row.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/attention.h"

namespace lily::gpu {

// Sines and cosines of a position's 32 angles, one of each lane. The angle in turns is position * turns, of
// which only the fraction counts: exact at every position.
GPU_FN void put_rotation(shared<AttentionRotation> to, in<ulong> turns, uint position, uint lane) {
  uint fraction = uint((position * turns[lane]) >> 32);
  float angle = float(int(fraction)) * 1.4629180792671596e-9f;  // 2 pi / 2^32
  to->sine[lane] = sin(angle);
  to->cosine[lane] = cos(angle);
}

// A head's dimensions, normalized and rotated; rotated pairs (j, j + 32) lie four lanes apart.
GPU_FN void normalize_and_rotate(ref<float[8]> v, cref<float[8]> norm, shared<AttentionRotation> by,
                                 float eps, uint lane) {
  float sum = 0.0f;
  GPU_UNROLL for (uint i = 0; i < 8; ++i) sum += v[i] * v[i];
  float scale = rsqrt(simd_sum(sum) / float(AttentionPrepare::dim) + eps);
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    v[i] = v[i] * scale * norm[i];
    float other = simd_shuffle_xor(v[i], 4);
    if (lane < 8) {
      uint pair = (lane & 3) * 8 + i;
      v[i] = v[i] * by->cosine[pair] + (lane < 4 ? -other : other) * by->sine[pair];
    }
  }
}

// A query, divided by 16 = sqrt(256).
GPU_FN void store_query(out<float> query, uint lane, cref<float[8]> v) {
  store4(query + lane * 8, float4{v[0], v[1], v[2], v[3]} * 0.0625f);
  store4(query + lane * 8 + 4, float4{v[4], v[5], v[6], v[7]} * 0.0625f);
}

// Codes of a lane's eight values; eight lanes share a scale. All 32 lanes together.
GPU_FN void store_codes(cref<float[8]> v, out<uint> codes, out<float> scales, uint lane) {
  float largest = 0.0f;
  GPU_UNROLL for (uint i = 0; i < 8; ++i) largest = larger_magnitude(largest, v[i]);
  GPU_UNROLL for (uint mask = 1; mask < 8; mask <<= 1) {
    largest = larger_magnitude(largest, simd_shuffle_xor(largest, mask));
  }
  float scale = largest / 127.0f, inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  uint word[2] = {0, 0};
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    word[i / 4] |= (uint(round_to_int(v[i] * inverse)) & 255u) << (8 * (i & 3));
  }
  codes[lane * 2] = word[0];
  codes[lane * 2 + 1] = word[1];
  if ((lane & 7) == 0) scales[lane >> 3] = scale;
}

}  // namespace lily::gpu
