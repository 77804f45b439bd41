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

// As the driver launches them: what runs through the first-level cache has a large one.
void prepare(const cuda::KernelBody& body, bool large_cache) {
  check(cudaFuncSetAttribute(body.entry, cudaFuncAttributeMaxDynamicSharedMemorySize, int(body.tile_bytes)),
        "shared memory");
  check(cudaFuncSetAttribute(body.entry, cudaFuncAttributePreferredSharedMemoryCarveout,
                             large_cache ? cudaSharedmemCarveoutDefault : cudaSharedmemCarveoutMaxShared),
        "carve-out");
}
void launch_next(const cuda::KernelBody& body, Grid grid, std::vector<void*> arguments, cudaStream_t stream) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.x, grid.y, grid.z);
  config.blockDim = dim3(body.threads);
  config.dynamicSmemBytes = body.tile_bytes;
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  check(cudaLaunchKernelExC(&config, body.entry, arguments.data()), "launch");
}
// Median microseconds of one set's launches among those of all sets, recorded once and replayed.
double replay_us(const std::function<void(int)>& record, int sets, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  for (int i = 0; i < sets; ++i) record(i);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "graph");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    check(cudaGraphLaunch(replay, stream), "graph");
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "run");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i > 1) times.push_back(1e3 * double(ms) / sets);
  }
  check(cudaGraphExecDestroy(replay), "graph");
  check(cudaGraphDestroy(graph), "graph");
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// The kernels of a layer, on one cache.
template <class Prepare, class Decode>
struct Layer {
  Prepare prepare;
  Decode decode;
  AttentionCombine sum;

  static const cuda::PairBody& pair() {
    for (const auto& pair : cuda::hopper_pairs())
      if (pair.body.kernel == KernelOf<Decode>::kId) return pair;
    std::puts("no Hopper body for attention and what prepares it");
    std::exit(1);
  }
  static void prepare_all() {
    bench::prepare(body_of(KernelOf<Prepare>::kId, false), false);
    bench::prepare(body_of(KernelOf<Decode>::kId, false), true);
    bench::prepare(body_of(KernelOf<Decode>::kId, true), false);
    bench::prepare(body_of(KernelId::AttentionCombine_id, false), false);
    bench::prepare(pair().body, false);
  }
  void attend(bool hopper, cudaStream_t stream) {
    launch_next(body_of(KernelOf<Decode>::kId, hopper), {kKvHeads * kSplits}, {&decode}, stream);
  }
  void attend_prepared(bool hopper, cudaStream_t stream) {
    if (hopper) return launch_next(pair().body, {kKvHeads * kSplits}, {&prepare, &decode}, stream);
    launch_next(body_of(KernelOf<Prepare>::kId, false), {kHeads + kKvHeads}, {&prepare}, stream);
    attend(false, stream);
  }
  void add_up(cudaStream_t stream) {
    launch_next(body_of(KernelId::AttentionCombine_id, false), {kHeads * AttentionCombine::groups}, {&sum},
                stream);
  }
};

// `expected`: of the first layer.
template <class Prepare, class Decode>
void time_layers(const std::string& name, std::vector<Layer<Prepare, Decode>> layers, float* y,
                 uint positions, double bytes, const std::vector<double>& expected) {
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  Layer<Prepare, Decode>::prepare_all();
  const int sets = int(layers.size());
  double errors[2];
  for (const bool hopper : {false, true}) {  // both before anything puts new rows into the caches
    poison(y, kHeads * kDim);
    poison(layers[0].decode.partial, size_t(kHeads) * kSplits * kDim);
    check(cudaDeviceSynchronize(), "poison");
    layers[0].attend(hopper, stream);
    layers[0].add_up(stream);
    check(cudaStreamSynchronize(stream), "run");
    const auto found = download(y, kHeads * kDim);
    errors[hopper] = relative_error(std::vector<double>(found.begin(), found.end()), expected);
  }
  for (const bool hopper : {false, true}) {
    report(name, hopper, replay_us([&](int i) { layers[i].attend(hopper, stream); }, sets, stream),
           4.0 * kDim * kHeads * positions, bytes, errors[hopper], 1e-5);
    const double with_sum = replay_us(
        [&](int i) {
          layers[i].attend(hopper, stream);
          layers[i].add_up(stream);
        },
        sets, stream);
    const double with_all = replay_us(
        [&](int i) {
          layers[i].attend_prepared(hopper, stream);
          layers[i].add_up(stream);
        },
        sets, stream);
    std::printf("%44s         %9.1f us with the sum of parts, %.1f us with queries and the newest row too\n",
                "", with_sum, with_all);
  }
  check(cudaStreamDestroy(stream), "stream");
}

}  // namespace

void attention_decode(uint position, bool codes) {
  const uint capacity = position + 1, k_row = 2 * kHeads * kDim, v_row = k_row + kKvHeads * kDim;
  const size_t rows = size_t(kKvHeads) * capacity;
  const double bytes = double(rows) * 2 * (codes ? kDim + 4.0 * kDim / kGroup : 2.0 * kDim);
  const int sets = std::clamp(int(2.5e8 / bytes), 10, 200);  // together beyond the second-level cache
  std::vector<Cache> caches;
  for (int i = 0; i < sets; ++i) caches.push_back(random_cache(rows, codes));
  const float *projection = floats(kStride, -3, 3), *norm = floats(kDim, 0.5f, 1.5f);
  float *queries = floats(kHeads * kDim, -0.3f, 0.3f), *own_queries = room<float>(kHeads * kDim);
  float *y = room<float>(kHeads * kDim), *partial = room<float>(size_t(kHeads) * kSplits * kDim),
        *maximum = room<float>(kHeads * kSplits), *sums = room<float>(kHeads * kSplits);
  const uint* at = upload(std::vector<uint>{position});
  const ulong* turns = upload(std::vector<ulong>(32, 0x123456789abcdeful));
  double* expected = room<double>(kHeads * kDim);
  decode_reference<<<kHeads, kWarps * 32>>>(caches[0], queries, projection, capacity, position + 1, expected);
  const auto reference = download(expected, kHeads * kDim);
  const std::string name =
      std::string("one token, ") + (codes ? "8-bit" : "f16") + " cache, position " + std::to_string(position);
  const AttentionCombine sum{partial, maximum, sums, projection, y, kHeads, kSplits, kStride};
  if (codes) {
    std::vector<Layer<AttentionPrepareInt8, AttentionDecodeInt8>> layers;
    for (const Cache& c : caches)
      layers.push_back(
          {{projection, norm, norm, turns, at, own_queries,
            reinterpret_cast<uint*>(const_cast<uchar*>(c.key_codes)),
            reinterpret_cast<uint*>(const_cast<uchar*>(c.value_codes)), const_cast<float*>(c.key_scales),
            const_cast<float*>(c.value_scales), kHeads, kKvHeads, kStride, k_row, v_row, capacity, 1e-6f},
           {queries, c.key_codes, c.value_codes, c.key_scales, c.value_scales, at, partial, maximum, sums,
            kHeads, kKvHeads, kSplits, capacity},
           sum});
    time_layers(name, layers, y, position + 1, bytes, reference);
  } else {
    std::vector<Layer<AttentionPrepare, AttentionDecode>> layers;
    for (const Cache& c : caches)
      layers.push_back(
          {{projection, norm, norm, turns, at, own_queries, const_cast<half*>(c.keys),
            const_cast<half*>(c.values), kHeads, kKvHeads, kStride, k_row, v_row, capacity, 1e-6f},
           {queries, c.keys, c.values, at, partial, maximum, sums, kHeads, kKvHeads, kSplits, capacity},
           sum});
    time_layers(name, layers, y, position + 1, bytes, reference);
  }
  for (const Cache& c : caches) free_cache(c);
  for (const void* p : {(const void*)queries, (const void*)own_queries, (const void*)projection,
                        (const void*)norm, (const void*)y, (const void*)partial, (const void*)maximum,
                        (const void*)sums, (const void*)at, (const void*)turns, (const void*)expected})
    cudaFree(const_cast<void*>(p));
}

}  // namespace bench
