// Causal attention of many tokens behind a filled cache: checked on random rows, then timed.
#include "harness.cuh"

namespace bench {
namespace {

constexpr int kSamples = 24;
constexpr uint kHeads = 16, kKvHeads = 2, kDim = 256;

// A block of 256 threads per row, a thread per dimension.
__global__ void attention_reference(AttentionPrefill a, const uint* token, const uint* head, double* y) {
  __shared__ double part[8];
  __shared__ double query[kDim];
  const uint t = token[blockIdx.x], h = head[blockIdx.x], kv = h / (kHeads / kKvHeads), d = threadIdx.x;
  query[d] = a.queries[(size_t(t) * kHeads + h) * kDim + d];
  const half* keys = a.keys + size_t(kv) * a.capacity * kDim;
  const half* values = a.values + size_t(kv) * a.capacity * kDim;
  __syncthreads();
  double largest = -1e300, sum = 0, total = 0;
  for (uint p = 0; p <= a.position[0] + t; ++p) {
    double score = query[d] * double(__half2float(keys[size_t(p) * kDim + d]));
    for (int m = 16; m > 0; m >>= 1) score += __shfl_xor_sync(~0u, score, m);
    if (d % 32 == 0) part[d / 32] = score;
    __syncthreads();
    score = 0;
    for (int i = 0; i < 8; ++i) score += part[i];
    __syncthreads();
    const double top = fmax(largest, score), kept = exp(largest - top), weight = exp(score - top);
    sum = sum * kept + weight;
    total = total * kept + weight * double(__half2float(values[size_t(p) * kDim + d]));
    largest = top;
  }
  const double gate = a.projection[size_t(t) * a.stride + h * 2 * kDim + kDim + d];
  y[size_t(blockIdx.x) * kDim + d] = total / sum / (1 + exp(-gate));
}

}  // namespace

void attention(uint tokens, uint position) {
  const uint capacity = position + tokens, stride = 9216;
  AttentionPrefill a{};
  a.queries = floats(size_t(tokens) * kHeads * kDim, -0.2f, 0.2f);
  a.keys = halves(size_t(kKvHeads) * capacity * kDim, -2, 2);
  a.values = halves(size_t(kKvHeads) * capacity * kDim, -2, 2);
  a.projection = floats(size_t(tokens) * stride, -3, 3);
  a.position = upload(std::vector<uint>{position});
  float* y = room<float>(size_t(tokens) * kHeads * kDim);
  a.y = y;
  a.tokens = tokens;
  a.heads = kHeads;
  a.kv_heads = kKvHeads;
  a.stride = stride;
  a.capacity = capacity;
  std::vector<uint> token, head;
  for (int i = 0; i < kSamples; ++i) {
    token.push_back(i == 0 ? 0 : i == 1 ? tokens - 1 : mix(next_seed()) % tokens);
    head.push_back(mix(next_seed()) % kHeads);
  }
  double* expected = room<double>(kSamples * kDim);
  attention_reference<<<kSamples, kDim>>>(a, upload(token), upload(head), expected);
  const auto reference = download(expected, kSamples * kDim);
  const double pairs = double(tokens) * position + 0.5 * double(tokens) * (tokens + 1);
  for (const bool hopper : {false, true}) {
    if (!hopper && position > 50000) continue;  // seconds
    const auto run = [&](int) { launch(a, {kKvHeads, (tokens * (kHeads / kKvHeads) + 63) / 64}, hopper); };
    poison(y, size_t(tokens) * kHeads * kDim);
    run(0);
    const auto all = download(y, size_t(tokens) * kHeads * kDim);
    std::vector<double> found;
    for (int i = 0; i < kSamples; ++i)
      for (uint d = 0; d < kDim; ++d) found.push_back(all[(size_t(token[i]) * kHeads + head[i]) * kDim + d]);
    report("attention, position " + std::to_string(position) + " T=" + std::to_string(tokens), hopper,
           median_us(run, 1, position > 50000 ? 3 : 9), 4.0 * kDim * kHeads * pairs,
           2.0 * 2 * kKvHeads * kDim * capacity + 8.0 * tokens * kHeads * kDim,
           relative_error(found, reference), 2e-3);
  }
  for (const void* p : {(const void*)a.queries, (const void*)a.keys, (const void*)a.values,
                        (const void*)a.projection, (const void*)a.y})
    cudaFree(const_cast<void*>(p));
}

}  // namespace bench
