// Matrix tiles: every element once, and the product of tiles.
#include <cmath>
#include <set>

#include "backend/gpu/dialect/tile.h"
#include "backend/gpu/emulator/emulator.hpp"
#include "gpu/tolerances.hpp"

#include <gtest/gtest.h>

#include <random>

using namespace lily::gpu;  // NOLINT(google-build-using-namespace): kernels are written so

namespace {

// y [16][32] = x [16][48] times the transpose of w [32][48].
struct TileProduct {
  enum : uint { threads = 32, depth = 48 };
  in<half> x, w;
  out<float> y;
  struct Shared {
    alignas(16) half x[16 * depth];
    alignas(16) half w[32 * depth];
    alignas(16) half w_transposed[depth * 32];
  };
};
GPU_KERNEL(TileProduct) {
  const uint ld = TileProduct::depth;
  for (uint i = t.lane; i < 16 * ld; i += 32) s.x[i] = a.x[i];
  for (uint i = t.lane; i < 32 * ld; i += 32) {
    s.w[i] = a.w[i];
    s.w_transposed[i % ld * 32 + i / ld] = a.w[i];
  }
  group_barrier();
  Tile<float> c0, c1;
  tile_zero(c0);
  tile_zero(c1);
  for (uint k = 0; k < ld; k += 16) {
    Tile<half> x, w0, w1;
    tile_load(x, s.x + k, ld, t.lane);
    tile_load_right(w0, s.w + k, ld, t.lane);
    tile_load_right_transposed(w1, s.w_transposed + k * 32 + 16, 32, t.lane);
    tile_mma(c0, c1, x, w0, w1);
  }
  GPU_UNROLL for (uint i = 0; i < 8; ++i) {
    uint row = tile_row(t.lane, i), column = tile_col(t.lane, i);
    a.y[row * 32 + column] = c0.v[i];
    a.y[row * 32 + 16 + column] = c1.v[i];
  }
}

}  // namespace

namespace lily::gpu::emulator {
namespace {

TEST(Tile, EveryElementHasOnePlace) {
  std::set<std::pair<uint, uint>> places;
  for (uint lane = 0; lane < 32; ++lane) {
    for (uint i = 0; i < 8; ++i) places.emplace(tile_row(lane, i), tile_col(lane, i));
  }
  EXPECT_EQ(places.size(), 256U);
  EXPECT_EQ(*places.rbegin(), std::pair(15U, 15U));
}

TEST(Tile, ProductAgreesWithTheSumOfProducts) {
  constexpr std::size_t kDepth = TileProduct::depth;
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-2, 2);
  std::vector<half> x(16 * kDepth), w(32 * kDepth);
  for (half& value : x) value = static_cast<half>(uniform(random));
  for (half& value : w) value = static_cast<half>(uniform(random));
  for (const LaneOrder order : {LaneOrder::forward, LaneOrder::backward, LaneOrder::shuffled}) {
    std::vector<float> y(16 * 32, NAN);
    TileProduct arguments{x.data(), w.data(), y.data()};
    run(make_kernel<TileProduct>("TileProduct", TileProduct_entry), &arguments, {1}, order);
    for (std::size_t row = 0; row < 16; ++row) {
      for (std::size_t column = 0; column < 32; ++column) {
        double sum = 0, magnitude = 0;
        for (std::size_t k = 0; k < kDepth; ++k) {
          const double product =
              static_cast<double>(x[row * kDepth + k]) * static_cast<double>(w[column * kDepth + k]);
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(y[row * 32 + column], sum, tolerance::kTile * magnitude);
      }
    }
  }
}

}  // namespace
}  // namespace lily::gpu::emulator
