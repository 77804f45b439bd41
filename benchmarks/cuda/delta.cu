// The delta rule over many tokens: chunk parts, then chunk after chunk; checked against the rule in doubles,
// then timed.
#include "harness.cuh"

namespace bench {
namespace {

constexpr uint kKeyHeads = 16, kValueHeads = 32, kDim = 128;

// Rows of 128 to unit length times `length`; a warp per row.
__global__ void unit_rows(float* x, uint rows, float length) {
  const uint row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  float4 v = reinterpret_cast<float4*>(x)[size_t(row) * 32 + threadIdx.x % 32];
  float sum = v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  for (int m = 16; m > 0; m >>= 1) sum += __shfl_xor_sync(~0u, sum, m);
  const float f = length * rsqrtf(sum);
  reinterpret_cast<float4*>(x)[size_t(row) * 32 + threadIdx.x % 32] =
      float4{v.x * f, v.y * f, v.z * f, v.w * f};
}

// A block of 128 threads per value: a thread has one key of the state.
__global__ void rule_reference(const float* q, const float* k, const float* v, const float* beta,
                               const float* log_decay, const float* state, uint tokens, uint head, double* y,
                               double* next) {
  __shared__ double parts[2][4];
  const uint value = blockIdx.x, d = threadIdx.x, key_head = head / (kValueHeads / kKeyHeads);
  double s = state[(size_t(head) * kDim + value) * kDim + d];
  for (uint token = 0; token < tokens; ++token) {
    const double key = k[(size_t(token) * kKeyHeads + key_head) * kDim + d];
    const double query = q[(size_t(token) * kKeyHeads + key_head) * kDim + d];
    s *= exp(double(log_decay[token * kValueHeads + head]));
    double read = s * key;
    for (int m = 16; m > 0; m >>= 1) read += __shfl_xor_sync(~0u, read, m);
    if (d % 32 == 0) parts[0][d / 32] = read;
    __syncthreads();
    read = parts[0][0] + parts[0][1] + parts[0][2] + parts[0][3];
    s += beta[token * kValueHeads + head] * (v[(size_t(token) * kValueHeads + head) * kDim + value] - read) *
         key;
    double out = s * query;
    for (int m = 16; m > 0; m >>= 1) out += __shfl_xor_sync(~0u, out, m);
    if (d % 32 == 0) parts[1][d / 32] = out;
    __syncthreads();
    if (d == 0) y[size_t(token) * kDim + value] = parts[1][0] + parts[1][1] + parts[1][2] + parts[1][3];
  }
  next[value * kDim + d] = s;
}

}  // namespace

void delta(uint tokens) {
  const uint chunks = (tokens + 63) / 64, head = mix(next_seed()) % kValueHeads;
  const size_t rows = size_t(kValueHeads) * chunks * 64, state_size = size_t(kValueHeads) * kDim * kDim;
  float *q = floats(size_t(tokens) * kKeyHeads * kDim, -1, 1),
        *k = floats(size_t(tokens) * kKeyHeads * kDim, -1, 1.5f);
  unit_rows<<<tokens * kKeyHeads / 8, 256>>>(q, tokens * kKeyHeads, 0.08838835f);
  unit_rows<<<tokens * kKeyHeads / 8, 256>>>(k, tokens * kKeyHeads, 1.0f);
  float* v = floats(size_t(tokens) * kValueHeads * kDim, -2, 2);
  float *beta = floats(size_t(tokens) * kValueHeads, 0, 1),
        *log_decay = floats(size_t(tokens) * kValueHeads, -0.1f, 0);
  float *decay = room<float>(rows), *u = room<float>(rows * kDim);
  half *w = room<half>(rows * kDim), *p = room<half>(rows * 64);
  float *states = floats(2 * state_size, -1, 1), *y = room<float>(size_t(tokens) * kValueHeads * kDim);
  const uint* step = upload(std::vector<uint>{0});
  double *expected = room<double>(size_t(tokens) * kDim), *expected_state = room<double>(kDim * kDim);
  rule_reference<<<kDim, kDim>>>(q, k, v, beta, log_decay, states, tokens, head, expected, expected_state);
  const auto reference = download(expected, size_t(tokens) * kDim),
             state_reference = download(expected_state, kDim * kDim);
  const auto parts = [&](int) {
    launch(DeltaChunks{q, k, v, beta, log_decay, decay, u, w, p, tokens, kKeyHeads, kValueHeads},
           {chunks, kValueHeads}, false);
  };
  parts(0);
  const double product = 2.0 * 64 * 64 * 64;  // operations of 64 x 64 x 64
  report("delta rule: chunk parts T=" + std::to_string(tokens), false, median_us(parts, 1, 7),
         product * (4 + 4) * chunks * kValueHeads,
         4.0 * tokens * kDim * (2 * kKeyHeads + kValueHeads) + rows * (6.0 * kDim + 128), 0, 1);
  for (const bool hopper : {false, true}) {
    const auto run = [&](int) {
      launch(DeltaChunkScan{q, k, decay, u, w, p, step, states, y, tokens, kKeyHeads, kValueHeads, 2},
             {4, kValueHeads}, hopper);
    };
    poison(y, size_t(tokens) * kValueHeads * kDim);
    poison(states + state_size, state_size);
    run(0);
    std::vector<ulong> places, state_places;
    for (uint token = 0; token < tokens; ++token)
      for (uint d = 0; d < kDim; ++d) places.push_back((ulong(token) * kValueHeads + head) * kDim + d);
    for (uint i = 0; i < kDim * kDim; ++i) state_places.push_back(state_size + ulong(head) * kDim * kDim + i);
    const double error = std::max(relative_error(values_at(y, places), reference),
                                  relative_error(values_at(states, state_places), state_reference));
    report("delta rule: chunk after chunk T=" + std::to_string(tokens), hopper, median_us(run, 1, 7),
           product * (4 + 4 + 2 + 4) * chunks * kValueHeads,
           rows * (6.0 * kDim + 128) + 4.0 * tokens * kDim * (2 * kKeyHeads + kValueHeads), error, 3e-3);
  }
  for (const void* each : {(const void*)q, (const void*)k, (const void*)v, (const void*)beta,
                           (const void*)log_decay, (const void*)decay, (const void*)u, (const void*)w,
                           (const void*)p, (const void*)states, (const void*)y})
    cudaFree(const_cast<void*>(each));
}

}  // namespace bench
