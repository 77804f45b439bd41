// Dense and grouped products of many tokens: checked on random places, then timed.
#include "harness.cuh"
#include "reference.cuh"

namespace bench {
namespace {

constexpr int kSamples = 4096;
constexpr double kBlockBytes = WeightBlock::bytes;
constexpr float kSize = 0.005f;    // of a scale
constexpr float kGuard = 8192.0f;  // weight_guard of weights up to about 0.1

__global__ void dense_reference(const uchar* weights, const half* x, const float* scale, uint inputs,
                                const uint* token, const uint* row, double* y) {
  const uint i = blockIdx.x * 8 + threadIdx.x / 32;
  const double sum = product(weights, row[i], x + size_t(token[i]) * inputs, inputs);
  if (threadIdx.x % 32 == 0) y[i] = sum * scale[token[i]];
}

struct Samples {
  std::vector<uint> tokens, rows;
  uint *token, *row;
  double* expected;
};
Samples samples(uint tokens, uint rows) {
  Samples s;
  for (int i = 0; i < kSamples; ++i) {
    s.tokens.push_back(mix(next_seed()) % tokens);
    s.rows.push_back(mix(next_seed()) % rows);
  }
  s.token = upload(s.tokens);
  s.row = upload(s.rows);
  s.expected = room<double>(kSamples);
  return s;
}

std::vector<double> found_at(const float* y, const Samples& s, ulong stride) {
  std::vector<ulong> places;
  for (int i = 0; i < kSamples; ++i) places.push_back(s.tokens[i] * stride + s.rows[i]);
  return values_at(y, places);
}

void dense(const char* name, uint rows, uint inputs, uint tokens, bool add) {
  const int sets = 4;
  const uint tiles = rows / 16;
  std::vector<uchar*> weights;
  std::vector<half*> x;
  for (int i = 0; i < sets; ++i) {
    weights.push_back(blocks(size_t(tiles) * ((inputs + 255) / 256), kSize));
    x.push_back(halves(size_t(tokens) * inputs, -1, 1));
  }
  float *scale = floats(tokens, 0.5f, 2.0f), *y = room<float>(size_t(tokens) * rows);
  const Samples s = samples(tokens, rows);
  for (const bool hopper : {false, true}) {
    const auto run = [&](int set) {
      if (add) {
        launch(TileAddProject{weights[set], x[set], scale, y, tokens, inputs, 1, tiles, kGuard},
               {(tiles + 7) / 8, (tokens + 63) / 64}, hopper);
      } else {
        launch(TileProject{weights[set], x[set], scale, y, tokens, inputs, 1, tiles, rows, kGuard},
               {(tiles + 7) / 8, (tokens + 63) / 64}, hopper);
      }
    };
    if (add) {
      check(cudaMemset(y, 0, size_t(tokens) * rows * 4), "memset");
    } else {
      poison(y, size_t(tokens) * rows);
    }
    run(1);
    const auto found = found_at(y, s, rows);
    dense_reference<<<kSamples / 8, 256>>>(weights[1], x[1], scale, inputs, s.token, s.row, s.expected);
    const auto expected = download(s.expected, kSamples);
    const double us = median_us(run, sets, 7);
    report(std::string(name) + " T=" + std::to_string(tokens), hopper, us, 2.0 * tokens * rows * inputs,
           double(tiles) * (inputs / 256) * kBlockBytes + 2.0 * tokens * inputs +
               (add ? 8.0 : 4.0) * tokens * rows,
           relative_error(found, expected), 1e-3);
  }
  for (int i = 0; i < sets; ++i) {
    cudaFree(weights[i]);
    cudaFree(x[i]);
  }
  cudaFree(y);
}

struct Routing {
  std::vector<uint> order, offset, expert_of;  // expert_of: by position
  uint *d_order, *d_offset, *tile_expert, *tile_first, max_tiles;
};
Routing route(uint tokens, bool skewed) {
  Routing r;
  std::vector<std::vector<uint>> lists(256);
  for (uint token = 0; token < tokens; ++token) {
    std::vector<uint> chosen;
    while (chosen.size() < 8) {
      const float u = uniform(next_seed());
      const uint expert = std::min(255u, uint(256 * (skewed ? std::pow(u, 1.8f) : u)));
      if (std::find(chosen.begin(), chosen.end(), expert) != chosen.end()) continue;
      lists[expert].push_back(token * 8 + uint(chosen.size()));
      chosen.push_back(expert);
    }
  }
  r.max_tiles = 256 + tokens * 8 / 64;
  std::vector<uint> tile_expert, tile_first;
  for (uint expert = 0; expert < 256; ++expert) {
    r.offset.push_back(uint(r.order.size()));
    for (uint i = 0; i < lists[expert].size(); i += 64) {
      tile_expert.push_back(expert);
      tile_first.push_back(r.offset.back() + i);
    }
    for (const uint assignment : lists[expert]) {
      r.order.push_back(assignment);
      r.expert_of.push_back(expert);
    }
  }
  r.offset.push_back(uint(r.order.size()));
  tile_expert.resize(r.max_tiles, ~0u);
  tile_first.resize(r.max_tiles, 0);
  r.d_order = upload(r.order);
  r.d_offset = upload(r.offset);
  r.tile_expert = upload(tile_expert);
  r.tile_first = upload(tile_first);
  return r;
}

// place: position in the order. Gate and up of its expert, or down alone.
__global__ void expert_reference(const uchar* first, const uchar* second, const half* x, const float* scale,
                                 uint inputs, uint rows, const uint* x_row, const uint* expert,
                                 const uint* row, double* y) {
  const uint i = blockIdx.x * 8 + threadIdx.x / 32;
  const size_t matrix = size_t(expert[i]) * (rows / 16) * (inputs / 256) * WeightBlock::bytes;
  const half* from = x + size_t(x_row[i]) * inputs;
  double sum = product(first + matrix, row[i], from, inputs) * scale[x_row[i]];
  if (second != nullptr) {
    const double up = product(second + matrix, row[i], from, inputs) * scale[x_row[i]];
    sum = sum / (1 + exp(-sum)) * up;
  }
  if (threadIdx.x % 32 == 0) y[i] = sum;
}

}  // namespace

void multiply(uint tokens) {
  dense("qkv, z, b, a: 2048 -> 12352", 12352, 2048, tokens, false);
  dense("out: 4096 -> 2048, added", 2048, 4096, tokens, true);
}

void experts(uint tokens, bool skewed) {
  const int sets = 2;
  std::vector<Routing> routes;
  std::vector<half*> x, activations;
  for (int i = 0; i < sets; ++i) {
    routes.push_back(route(tokens, skewed));
    x.push_back(halves(size_t(tokens) * 2048, -1, 1));
    activations.push_back(halves(size_t(tokens) * 8 * 512, -1, 1));
  }
  const size_t count = size_t(256) * 512 * 2048 / 4096;  // blocks of a matrix of all experts
  uchar *gate = blocks(count, kSize), *up = blocks(count, kSize), *down = blocks(count, kSize);
  const uint n = tokens * 8;
  float *scale = floats(tokens, 0.5f, 2.0f), *ones = room<float>(n), *y = room<float>(size_t(n) * 512),
        *y_scale = room<float>(n);
  fill_floats<<<64, 256>>>(ones, n, 1.0f, 1.0f, 1);
  half* z = room<half>(size_t(n) * 2048);
  const Routing& r = routes[1];
  std::vector<uint> place, x_row, expert, gate_row, down_row;
  for (int i = 0; i < kSamples; ++i) {
    place.push_back(mix(next_seed()) % n);
    x_row.push_back(r.order[place[i]] / 8);
    expert.push_back(r.expert_of[place[i]]);
    gate_row.push_back(mix(next_seed()) % 512);
    down_row.push_back(mix(next_seed()) % 2048);
  }
  double* expected = room<double>(kSamples);
  const uint *d_x_row = upload(x_row), *d_place = upload(place), *d_expert = upload(expert);
  const uint *d_gate_row = upload(gate_row), *d_down_row = upload(down_row);
  const std::string suffix = std::string(skewed ? " skewed" : "") + " T=" + std::to_string(tokens);
  for (const bool hopper : {false, true}) {
    const auto run = [&](int set) {
      const Routing& route = routes[set];
      launch(ExpertTileGateUp{gate, up, x[set], scale, route.d_order, route.d_offset, route.tile_expert,
                              route.tile_first, y, 2048, 32, 8, kGuard, kGuard},
             {8, route.max_tiles}, hopper);
    };
    poison(y, size_t(n) * 512);
    run(1);
    std::vector<ulong> at;
    for (int i = 0; i < kSamples; ++i) at.push_back(ulong(place[i]) * 512 + gate_row[i]);
    const auto found = values_at(y, at);
    expert_reference<<<kSamples / 8, 256>>>(gate, up, x[1], scale, 2048, 512, d_x_row, d_expert, d_gate_row,
                                            expected);
    const double error = relative_error(found, download(expected, kSamples));
    report("experts: gate, up" + suffix, hopper, median_us(run, sets, 7), 2.0 * n * 1024 * 2048,
           2.0 * count * kBlockBytes + 2.0 * tokens * 2048 + 4.0 * n * 512, error, 1e-3);
  }
  for (const bool hopper : {false, true}) {
    const auto run = [&](int set) {
      const Routing& route = routes[set];
      launch(ExpertTileDown{down, activations[set], ones, route.d_order, route.d_offset, route.tile_expert,
                            route.tile_first, z, y_scale, 512, 128, kGuard},
             {16, route.max_tiles}, hopper);
    };
    poison(z, size_t(n) * 2048);
    poison(y_scale, n);
    run(1);
    std::vector<ulong> at, scale_at;
    for (int i = 0; i < kSamples; ++i) {
      at.push_back(ulong(r.order[place[i]]) * 2048 + down_row[i]);
      scale_at.push_back(r.order[place[i]]);
    }
    auto found = values_at(z, at);
    const auto scales = values_at(y_scale, scale_at);
    for (int i = 0; i < kSamples; ++i) found[i] *= scales[i];
    expert_reference<<<kSamples / 8, 256>>>(down, nullptr, activations[1], ones, 512, 2048, d_place, d_expert,
                                            d_down_row, expected);
    const double error = relative_error(found, download(expected, kSamples));
    report("experts: down" + suffix, hopper, median_us(run, sets, 7), 2.0 * n * 512 * 2048,
           1.0 * count * kBlockBytes + 2.0 * n * 512 + 2.0 * n * 2048, error, 1e-3);
  }
  for (const auto* p : {gate, up, down}) cudaFree(const_cast<uchar*>(p));
  cudaFree(y);
  cudaFree(z);
  for (int i = 0; i < sets; ++i) {
    cudaFree(x[i]);
    cudaFree(activations[i]);
  }
}

}  // namespace bench
