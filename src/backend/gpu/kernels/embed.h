// Rows of the embedding.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/embed.h"

using namespace lily::gpu;

GPU_KERNEL(EmbedRow) {
  allow_next();
  wait_for_previous();
  uint row = min(a.token[t.group.y], a.vocabulary - 1), per_word = 32 / a.bits, mask = (1u << a.bits) - 1u;
  in<uint> codes = a.codes + ulong(row) * (a.hidden / per_word);
  ulong groups = ulong(row) * (a.hidden / a.group_size);
  for (uint i = t.index; i < a.hidden; i += EmbedRow::threads) {
    uint code = codes[i / per_word] >> (i % per_word * a.bits) & mask;
    ulong group = groups + i / a.group_size;
    a.x[ulong(t.group.y) * a.hidden + i] = float(a.scales[group]) * float(code) + float(a.biases[group]);
  }
}
