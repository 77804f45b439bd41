// Rows of the embedding.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/embed.h"

using namespace lily::gpu;

GPU_KERNEL(EmbedRow) {
  allow_next();
  uint word_shift = a.bits == 8 ? 2 : 3, mask = (1u << a.bits) - 1u;
  uint groups = a.hidden / a.group_size, first_group = t.index * 8 / a.group_size;
  wait_for_previous();
  uint row = min(a.token[t.group.y], a.vocabulary - 1);
  in<uint> codes = a.codes + ulong(row) * (a.hidden >> word_shift);
  for (uint i = t.index * 8; i < a.hidden; i += EmbedRow::threads * 8) {  // 8 inputs of one group
    ulong group = ulong(row) * groups + (i == t.index * 8 ? first_group : i / a.group_size);
    uint low = codes[i >> word_shift], high = a.bits == 8 ? codes[(i >> word_shift) + 1] : low;
    float scale = float(a.scales[group]), bias = float(a.biases[group]), v[8];
    GPU_UNROLL for (uint j = 0; j < 8; ++j) {
      uint word = a.bits == 8 && j >= 4 ? high : low;
      v[j] = scale * float(word >> (j * a.bits & 31u) & mask) + bias;
    }
    out<float> x = a.x + ulong(t.group.y) * a.hidden + i;
    store4(x, float4{v[0], v[1], v[2], v[3]});
    store4(x + 4, float4{v[4], v[5], v[6], v[7]});
  }
}
