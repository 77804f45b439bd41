// Attention of one token behind a filled cache of halves or of codes, and the sum of its parts: checked
// against doubles, then timed.
#include "harness.cuh"

namespace bench {
namespace {

constexpr uint kHeads = 16, kKvHeads = 2, kDim = 256, kGroup = 64, kSplits = 66, kStride = 9216;
constexpr uint kWarps = 16;

// Codes from -127 to 127.
__global__ void fill_codes(uchar* p, size_t n, ulong seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = uchar(int(mix(i + seed) % 255) - 127);
}

// A layer's cache.
struct Cache {
  const half *keys, *values;
  const uchar *key_codes, *value_codes;
  const float *key_scales, *value_scales;
};
Cache random_cache(size_t rows, bool codes) {
  Cache c{};
  if (!codes) {
    c.keys = halves(rows * kDim, -2, 2);
    c.values = halves(rows * kDim, -2, 2);
    return c;
  }
  for (const uchar** each : {&c.key_codes, &c.value_codes}) {
    uchar* p = room<uchar>(rows * kDim);
    fill_codes<<<1024, 256>>>(p, rows * kDim, next_seed());
    *each = p;
  }
  c.key_scales = floats(rows * (kDim / kGroup), 0.002f, 0.016f);
  c.value_scales = floats(rows * (kDim / kGroup), 0.002f, 0.016f);
  return c;
}
void free_cache(const Cache& c) {
  for (const void* p : {(const void*)c.keys, (const void*)c.values, (const void*)c.key_codes,
                        (const void*)c.value_codes, (const void*)c.key_scales, (const void*)c.value_scales})
    cudaFree(const_cast<void*>(p));
}

__device__ double cached(const half* halves, const uchar* codes, const float* scales, size_t row, uint d) {
  if (halves != nullptr) return __half2float(halves[row * kDim + d]);
  return double(scales[row * (kDim / kGroup) + d / kGroup]) *
         double(static_cast<signed char>(codes[row * kDim + d]));
}
// A block per head, of which a warp has every 16th position and a lane eight dimensions.
__global__ void decode_reference(Cache c, const float* queries, const float* projection, uint capacity,
                                 uint positions, double* y) {
  __shared__ double part[kWarps][kDim], largest[kWarps], sums[kWarps];
  const uint head = blockIdx.x, warp = threadIdx.x / 32, first = threadIdx.x % 32 * 8;
  double own[8] = {}, top = -1e300, sum = 0;
  for (uint p = warp; p < positions; p += kWarps) {
    const size_t row = size_t(head / (kHeads / kKvHeads)) * capacity + p;
    double score = 0;
    for (uint i = 0; i < 8; ++i)
      score += queries[head * kDim + first + i] * cached(c.keys, c.key_codes, c.key_scales, row, first + i);
    for (int m = 16; m > 0; m >>= 1) score += __shfl_xor_sync(~0u, score, m);
    const double most = fmax(top, score), kept = exp(top - most), weight = exp(score - most);
    for (uint i = 0; i < 8; ++i)
      own[i] = own[i] * kept + weight * cached(c.values, c.value_codes, c.value_scales, row, first + i);
    sum = sum * kept + weight;
    top = most;
  }
  for (uint i = 0; i < 8; ++i) part[warp][first + i] = own[i];
  largest[warp] = top;
  sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x >= kDim) return;
  double total = 0, all = 0;
  for (uint w = 0; w < kWarps; ++w) top = fmax(top, largest[w]);
  for (uint w = 0; w < kWarps; ++w) {
    const double weight = exp(largest[w] - top);
    all += weight * sums[w];
    total += weight * part[w][threadIdx.x];
  }
  const double gate = projection[head * 2 * kDim + kDim + threadIdx.x];
  y[head * kDim + threadIdx.x] = total / all / (1 + exp(-gate));
}

}  // namespace

void attention_decode(uint position, bool codes) {
  const uint capacity = position + 1;
  const size_t rows = size_t(kKvHeads) * capacity;
  const double bytes = double(rows) * 2 * (codes ? kDim + 4.0 * kDim / kGroup : 2.0 * kDim);
  const int sets = std::clamp(int(2.5e8 / bytes), 3, 100);  // together beyond the second-level cache
  std::vector<Cache> caches;
  for (int i = 0; i < sets; ++i) caches.push_back(random_cache(rows, codes));
  const float *queries = floats(kHeads * kDim, -0.3f, 0.3f), *projection = floats(kStride, -3, 3);
  float *y = room<float>(kHeads * kDim), *partial = room<float>(size_t(kHeads) * kSplits * kDim),
        *maximum = room<float>(kHeads * kSplits), *sums = room<float>(kHeads * kSplits);
  const uint* at = upload(std::vector<uint>{position});
  double* expected = room<double>(kHeads * kDim);
  decode_reference<<<kHeads, kWarps * 32>>>(caches[0], queries, projection, capacity, position + 1, expected);
  const auto reference = download(expected, kHeads * kDim);
  const std::string name =
      std::string("one token, ") + (codes ? "8-bit" : "f16") + " cache, position " + std::to_string(position);
  for (const bool hopper : {false, true}) {
    const auto attend = [&](int set) {
      const Cache& c = caches[set];
      if (codes) {
        launch(AttentionDecodeInt8{queries, c.key_codes, c.value_codes, c.key_scales, c.value_scales, at,
                                   partial, maximum, sums, kHeads, kKvHeads, kSplits, capacity},
               {kKvHeads * kSplits}, hopper);
      } else {
        launch(AttentionDecode{queries, c.keys, c.values, at, partial, maximum, sums, kHeads, kKvHeads,
                               kSplits, capacity},
               {kKvHeads * kSplits}, hopper);
      }
    };
    poison(y, kHeads * kDim);
    poison(partial, size_t(kHeads) * kSplits * kDim);
    attend(0);
    launch(AttentionCombine{partial, maximum, sums, projection, y, kHeads, kSplits, kStride}, {kHeads * 4},
           false);
    const auto found = download(y, kHeads * kDim);
    report(name, hopper, median_us(attend, sets, 7), 4.0 * kDim * kHeads * (position + 1), bytes,
           relative_error(std::vector<double>(found.begin(), found.end()), reference), 1e-5);
  }
  for (const Cache& c : caches) free_cache(c);
  for (const void* p : {(const void*)queries, (const void*)projection, (const void*)y, (const void*)partial,
                        (const void*)maximum, (const void*)sums, (const void*)at, (const void*)expected})
    cudaFree(const_cast<void*>(p));
}

}  // namespace bench
