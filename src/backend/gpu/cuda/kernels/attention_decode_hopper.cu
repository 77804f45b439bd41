// Hopper's attention of one token: the kernels.
#include "backend/gpu/cuda/kernels/attention_decode.h"

namespace lily::gpu::hopper {

GPU_FN Thread this_thread() {
  return {uint3{blockIdx.x, blockIdx.y, blockIdx.z}, threadIdx.x, threadIdx.x & 31u, threadIdx.x >> 5};
}

LILY_HOPPER_KERNEL(AttentionDecode, AttentionSplitHalves::threads, 1) {
  allow_next();
  attend_token<AttentionSplitHalves, half>(a, a.queries, a.queries, hopper_memory, this_thread());
}

LILY_HOPPER_KERNEL(AttentionDecodeInt8, AttentionSplitCodes::threads, 1) {
  allow_next();
  attend_token<AttentionSplitCodes, uchar>(a, a.key_scales, a.value_scales, hopper_memory, this_thread());
}

// For one token, in place of two kernels after each other.
extern "C" __global__ void __launch_bounds__(AttentionSplitHalves::threads, 1)
    AttentionStep_hopper(const __grid_constant__ AttentionPrepare rows,
                         const __grid_constant__ AttentionDecode a) {
  allow_next();
  attend_new_token<AttentionSplitHalves, half>(rows, a, a.queries, a.queries, hopper_memory, this_thread());
}

extern "C" __global__ void __launch_bounds__(AttentionSplitCodes::threads, 1)
    AttentionStepInt8_hopper(const __grid_constant__ AttentionPrepareInt8 rows,
                             const __grid_constant__ AttentionDecodeInt8 a) {
  allow_next();
  attend_new_token<AttentionSplitCodes, uchar>(rows, a, a.key_scales, a.value_scales, hopper_memory,
                                               this_thread());
}

}  // namespace lily::gpu::hopper
