// What the CUDA kernel benchmarks share: memory with random contents, launches, times, errors against a
// reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "backend/gpu/cuda/kernels/hopper_bodies.hpp"
#include "backend/gpu/kernels/kernels.hpp"

namespace bench {

using namespace lily::gpu;

inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}

__host__ __device__ inline uint mix(ulong x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return uint(x >> 32);
}
__host__ __device__ inline float uniform(ulong x) { return float(mix(x) >> 8) * (1.0f / 16777216.0f); }
inline ulong& seed() {
  static ulong value = 1;
  return value;
}
inline ulong next_seed() { return seed() += 0x9e3779b97f4a7c15ull; }

static __global__ void fill_floats(float* p, size_t n, float low, float high, ulong seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = low + (high - low) * uniform(i + seed);
}
static __global__ void fill_halves(half* p, size_t n, float low, float high, ulong seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = __float2half(low + (high - low) * uniform(i + seed));
}
// Blocks of random codes, scales of either sign, biases that bring the mean near zero.
static __global__ void fill_blocks(uint* p, size_t words, float size, ulong seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < words;
       i += size_t(gridDim.x) * blockDim.x) {
    uint bits = mix(i + seed);
    if (i % (WeightBlock::bytes / 4) >= WeightBlock::code_bytes / 4) {
      float scale = size * (0.5f + float(bits & 0xffff) / 65536.0f) * (bits >> 31 ? -1.0f : 1.0f);
      uint low = __bfloat16_as_ushort(__float2bfloat16(scale));
      bits = low | uint(__bfloat16_as_ushort(__float2bfloat16(-7.5f * scale))) << 16;
    }
    p[i] = bits;
  }
}

template <class T>
T* room(size_t count) {
  T* p = nullptr;
  check(cudaMalloc(&p, count * sizeof(T)), "cudaMalloc");
  check(cudaMemset(p, 0xff, count * sizeof(T)), "cudaMemset");
  return p;
}
inline float* floats(size_t n, float low, float high) {
  float* p = room<float>(n);
  fill_floats<<<1024, 256>>>(p, n, low, high, next_seed());
  return p;
}
inline half* halves(size_t n, float low, float high) {
  half* p = room<half>(n);
  fill_halves<<<1024, 256>>>(p, n, low, high, next_seed());
  return p;
}
inline uchar* blocks(size_t count, float size) {
  uint* p = room<uint>(count * (WeightBlock::bytes / 4));
  fill_blocks<<<2048, 256>>>(p, count * (WeightBlock::bytes / 4), size, next_seed());
  return reinterpret_cast<uchar*>(p);
}
template <class T>
T* upload(const std::vector<T>& values) {
  T* p = room<T>(values.size());
  check(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  return p;
}
template <class T>
std::vector<T> download(const T* p, size_t count) {
  std::vector<T> values(count);
  check(cudaDeviceSynchronize(), "kernel");
  check(cudaMemcpy(values.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
  return values;
}
static __device__ inline double number(float x) { return x; }
static __device__ inline double number(half x) { return __half2float(x); }
template <class T>
__global__ void gather(const T* from, const ulong* places, double* to, uint count) {
  const uint i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = number(from[places[i]]);
}
// Single values of a large array.
template <class T>
std::vector<double> values_at(const T* from, const std::vector<ulong>& places) {
  double* to = room<double>(places.size());
  ulong* at = upload(places);
  gather<<<uint(places.size() + 255) / 256, 256>>>(from, at, to, uint(places.size()));
  const auto found = download(to, places.size());
  cudaFree(to);
  cudaFree(at);
  return found;
}
template <class T>
void poison(T* p, size_t count) {
  check(cudaMemset(p, 0xff, count * sizeof(T)), "poison");
}

// A kernel's body: the dialect's, or Hopper's.
inline cuda::KernelBody body_of(KernelId kernel, bool hopper) {
  if (hopper) {
    for (const auto& body : cuda::hopper_bodies())
      if (body.kernel == kernel) return body;
    std::printf("no Hopper body for %s\n", std::string(info(kernel).name).c_str());
    std::exit(1);
  }
  return cuda::dialect_bodies()[size_t(kernel)];
}

template <class Arguments>
void launch(const Arguments& arguments, Grid grid, bool hopper) {
  const cuda::KernelBody body = body_of(KernelOf<Arguments>::kId, hopper);
  const Dispatch dispatch = make_dispatch(arguments, grid);
  if (body.grid != nullptr) grid = body.grid(dispatch);
  static bool prepared[2] = {};  // of this kernel
  if (!prepared[hopper]) {
    prepared[hopper] = true;
    check(cudaFuncSetAttribute(body.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, int(body.tile_bytes)),
          "shared memory");
    check(cudaFuncSetAttribute(body.entry, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "carve-out");
  }
  void* argument = const_cast<Arguments*>(&arguments);
  check(cudaLaunchKernel(body.entry, dim3(grid.x, grid.y, grid.z), dim3(body.threads), &argument,
                         body.tile_bytes, 0),
        "launch");
}

// Median microseconds of `run(set)` over input sets, after a warm-up. Short runs are timed several at a time,
// so that launching costs nothing.
inline double median_us(const std::function<void(int)>& run, int sets, int repeats) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  const auto time = [&](int first, int count) {
    check(cudaEventRecord(begin), "event");
    for (int i = 0; i < count; ++i) run((first + i) % sets);
    check(cudaEventRecord(end), "event");
    check(cudaEventSynchronize(end), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    return 1e3 * double(ms) / count;
  };
  time(0, sets);
  const int count = std::max(1, int(1500 / time(0, sets)));
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(time(i, count));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// ||found - expected|| / ||expected||; values that are no numbers never pass.
inline double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  double difference = 0, length = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    difference += (found[i] - expected[i]) * (found[i] - expected[i]);
    length += expected[i] * expected[i];
  }
  const double error = std::sqrt(difference / length);
  return std::isfinite(error) ? error : INFINITY;
}

inline bool& failed() {
  static bool value = false;
  return value;
}
inline void report(const std::string& name, bool hopper, double us, double flops, double bytes, double error,
                   double allowed) {
  const bool right = error <= allowed;
  if (!right) failed() = true;
  std::printf("%-44s %-7s %9.1f us %7.1f TFLOP/s %7.0f GB/s  error %.1e%s\n", name.c_str(),
              hopper ? "hopper" : "dialect", us, flops / us / 1e6, bytes / us / 1e3, error,
              right ? "" : "  WRONG");
  std::fflush(stdout);
}

// The benchmarks.
void multiply(uint tokens);
void experts(uint tokens, bool skewed);
void attention(uint tokens, uint position);
void attention_decode(uint position, bool codes);
void delta(uint tokens);

}  // namespace bench
