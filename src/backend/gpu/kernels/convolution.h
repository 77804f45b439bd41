// The convolution before the delta rule.
#pragma once
#include "backend/gpu/dialect/gpu.h"
#include "backend/gpu/kernels/args/delta_net.h"

namespace lily::gpu {

// silu of the convolution at one channel; rows before the first token come from the window.
GPU_FN float convolve(in<float> projection, in<float> window, in<float> weights, uint token, uint position,
                      uint channel, uint channels, uint stride) {
  float sum = 0.0f;
  GPU_UNROLL for (uint tap = 0; tap < DeltaRing::taps; ++tap) {
    uint back = DeltaRing::taps - 1 - tap;
    float x = 0.0f;
    if (token >= back) {
      x = projection[ulong(token - back) * stride + channel];
    } else if (position + token >= back) {
      x = window[(position + token - back) % DeltaRing::window_rows * channels + channel];
    }
    sum += weights[tap * channels + channel] * x;
  }
  return silu(sum);
}

// The convolution's input at channels `channel` to `channel + 3`, a multiple of 4, `back` rows before
// `token`.
GPU_FN float4 convolution_row(in<float> projection, in<float> window, uint token, uint back, uint position,
                              uint channel, uint channels, uint stride) {
  if (token >= back) return load4(projection + ulong(token - back) * stride + channel);
  if (position + token >= back) {
    return load4(window + (position + token - back) % DeltaRing::window_rows * channels + channel);
  }
  return float4{0.0f, 0.0f, 0.0f, 0.0f};
}

}  // namespace lily::gpu
