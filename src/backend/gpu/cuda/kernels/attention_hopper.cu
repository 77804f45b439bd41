// Hopper's attention of many tokens: the kernel.
#include "backend/gpu/cuda/kernels/attention.h"

namespace lily::gpu::hopper {

// Blocks of the last rows, which have the most positions, come first.
LILY_HOPPER_KERNEL(AttentionPrefill, Attention128::threads, 1) {
  allow_next();
  wait_for_previous();
  uint kv_head = blockIdx.x, group = a.heads / a.kv_heads, first_head = kv_head * group;
  ulong cache = ulong(kv_head) * a.capacity * Attention128::dim;
  uint blocks = (a.tokens * group + Attention128::rows - 1) / Attention128::rows;
  attend(a.queries + first_head * Attention128::dim, a.keys + cache, a.values + cache,
         a.projection + first_head * 2 * Attention128::dim, a.y + first_head * Attention128::dim,
         (blocks - 1 - blockIdx.y) * Attention128::rows, a.tokens, a.heads, group, a.stride, a.position[0]);
}

}  // namespace lily::gpu::hopper
