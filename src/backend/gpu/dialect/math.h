// Arithmetic that every branch of the dialect has in the same form.
#pragma once

namespace lily::gpu {

#if !defined(__METAL_VERSION__)  // MSL has these built in
GPU_FN float4 operator+(float4 a, float4 b) { return float4{a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
GPU_FN float4 operator-(float4 a, float4 b) { return float4{a.x - b.x, a.y - b.y, a.z - b.z, a.w - b.w}; }
GPU_FN float4 operator*(float4 a, float4 b) { return float4{a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w}; }
GPU_FN float4 operator*(float4 a, float b) { return float4{a.x * b, a.y * b, a.z * b, a.w * b}; }
GPU_FN float dot(float4 a, float4 b) { return (a.x * b.x + a.y * b.y) + (a.z * b.z + a.w * b.w); }
#endif

// Eight values from a multiple of 16 bytes on.
GPU_FN void load_eight(in<float> x, ref<float[8]> v) {
  float4 p = load4(x), q = load4(x + 4);
  v[0] = p.x;
  v[1] = p.y;
  v[2] = p.z;
  v[3] = p.w;
  v[4] = q.x;
  v[5] = q.y;
  v[6] = q.z;
  v[7] = q.w;
}

// As integers, magnitudes have the order of their values, and NaN is above all; a floating-point maximum
// would lose it, and codes made with the other one would be numbers.
GPU_FN float larger_magnitude(float x, float y) {
#if defined(__CUDACC__)
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(fabsf(x)), "f"(fabsf(y)));
  return r;
#else
  return as_type<float>(max(as_type<uint>(x) & 0x7fffffffu, as_type<uint>(y) & 0x7fffffffu));
#endif
}

// The halves of a word.
GPU_FN float half_lo(uint w) { return float(as_type<half>(ushort(w & 0xffffu))); }
GPU_FN float half_hi(uint w) { return float(as_type<half>(ushort(w >> 16))); }

GPU_FN float sigmoid(float x) { return quick_divide(1.0f, 1.0f + exp(-x)); }
GPU_FN float silu(float x) { return quick_divide(x, 1.0f + exp(-x)); }
// log(1 + exp(x)) without overflow and without losing small exp(x): log1p(y) = log(u) + (y - (u - 1)) / u,
// u = 1 + y rounded.
GPU_FN float softplus(float x) {
  float y = exp(min(x, 20.0f));
  float u = 1.0f + y;
  float sum = log(u) + quick_divide(y - (u - 1.0f), u);
  return x > 20.0f ? x : sum;
}

}  // namespace lily::gpu
