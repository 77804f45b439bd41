// Attention of many tokens on tiles, with the tiles in plain C++, against softmax in fp64 over the stored
// values.
#include "backend/cpu/simd/generic.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
// The body uses Simd, so it comes after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cpu/body/tile_attention.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

constexpr float kUntouched = 7;

struct Shape {
  bool int8;
  int head_dim, heads, position, tokens;
};

class Case {
 public:
  // `scale`: of queries.
  Case(const Shape& shape, float scale) : shape_(shape) {
    const int positions = shape.position + shape.tokens;
    const auto n = static_cast<std::size_t>((positions + kAttentionBlock - 1) / kAttentionBlock *
                                            kAttentionBlock * shape.head_dim);
    // What was never written has the largest codes and a NaN scale: it must not be used.
    keys_.assign(n, 32767);
    values_.assign(n, 32767);
    key_scales_.assign(n / kGroup, NAN);
    value_scales_.assign(n / kGroup, NAN);
    std::mt19937 random(static_cast<unsigned>(shape.position + 7 * shape.heads));
    std::normal_distribution<float> normal;
    const auto draw = [&](std::size_t count) {
      std::vector<float> x(count);
      for (float& value : x) value = normal(random);
      return x;
    };
    const auto dim = static_cast<std::size_t>(shape.head_dim);
    for (int p = 0; p < positions; ++p)
      generic_kernels().store_kv(view(), shape.head_dim, p, draw(dim).data(), draw(dim).data());
    queries_ = draw(static_cast<std::size_t>(shape.tokens * stride()));
    for (float& q : queries_) q *= scale;
  }

  // Tokens [first, first + count), alone.
  void attend(int first, int count) {
    if (values_out_.empty()) {
      values_out_.assign(queries_.size(), kUntouched);
      sums_.assign(static_cast<std::size_t>(shape_.tokens * (shape_.heads + 1)), kUntouched);
    }
    AttentionGroup group;
    group.queries = queries_.data() + first * stride();
    group.values = values_out_.data() + first * stride();
    group.sums = sums_.data() + static_cast<std::ptrdiff_t>(first) * (shape_.heads + 1);
    group.query_stride = group.value_stride = stride();
    group.sum_stride = shape_.heads + 1;
    group.tokens = count;
    group.heads = shape_.heads;
    group.position = shape_.position + first;
    tiled::attend_group<PlainTiles>(view(), shape_.head_dim, group);
  }

  void expect_softmax(double bound) const {
    for (int t = 0; t < shape_.tokens; ++t) {
      for (int h = 0; h < shape_.heads; ++h) expect_softmax_of(t, h, bound);
      ASSERT_EQ(values_out_[static_cast<std::size_t>((t + 1) * stride() - 1)], kUntouched);
      ASSERT_EQ(sums_[static_cast<std::size_t>((t + 1) * (shape_.heads + 1) - 1)], kUntouched);
    }
  }

  const std::vector<float>& values() const { return values_out_; }
  const std::vector<float>& sums() const { return sums_; }
  std::vector<float>& value_scales() { return value_scales_; }

 private:
  KvView view() {
    return {shape_.int8, keys_.data(), values_.data(), key_scales_.data(), value_scales_.data()};
  }
  std::ptrdiff_t stride() const { return static_cast<std::ptrdiff_t>(shape_.heads) * shape_.head_dim + 5; }

  double key(int p, int d) const {
    const int dim = shape_.head_dim;
    const int code =
        shape_.int8 ? reinterpret_cast<const std::uint8_t*>(keys_.data())[key_code_index(dim, p, d)] - 128
                    : keys_[static_cast<std::size_t>(key_index(dim, p, d))];
    return code * static_cast<double>(key_scales_[static_cast<std::size_t>(key_scale_index(dim, p, d))]);
  }
  double value(int p, int d) const {
    const int dim = shape_.head_dim;
    const int code = shape_.int8
                         ? reinterpret_cast<const std::int8_t*>(values_.data())[value_code_index(dim, p, d)]
                         : values_[static_cast<std::size_t>(value_index(dim, p, d))];
    return code * static_cast<double>(value_scales_[static_cast<std::size_t>(value_scale_index(dim, p, d))]);
  }

  void expect_softmax_of(int t, int h, double bound) const {
    const int seen = shape_.position + t + 1;
    const std::ptrdiff_t at = t * stride() + static_cast<std::ptrdiff_t>(h) * shape_.head_dim;
    std::vector<double> weights;
    double largest = -INFINITY, total = 0;
    for (int p = 0; p < seen; ++p) {
      double score = 0;
      for (int d = 0; d < shape_.head_dim; ++d)
        score += queries_[static_cast<std::size_t>(at + d)] * key(p, d);
      weights.push_back(score);
      largest = std::max(largest, score);
    }
    for (double& weight : weights) total += (weight = std::exp(weight - largest));
    const double sum = sums_[static_cast<std::size_t>(t * (shape_.heads + 1) + h)];
    for (int d = 0; d < shape_.head_dim; ++d) {
      double expected = 0;
      for (int p = 0; p < seen; ++p) expected += weights[static_cast<std::size_t>(p)] / total * value(p, d);
      ASSERT_NEAR(values_out_[static_cast<std::size_t>(at + d)] / sum, expected, bound)
          << "token " << t << ", head " << h << ", dim " << d;
    }
  }

  Shape shape_;
  std::vector<std::int16_t> keys_, values_;  // of 8-bit codes one half is used
  std::vector<float> key_scales_, value_scales_, queries_, values_out_, sums_;
};

TEST(TileAttention, IsTheSoftmaxOfWhatATokenSees) {
  for (const bool int8 : {false, true}) {
    for (const Shape& shape : {
             Shape{int8, 64, 1, 0, 1},      // the smallest
             Shape{int8, 128, 3, 0, 11},    // rows that fill no tile
             Shape{int8, 64, 8, 0, 5},      // one row more than a pair of tiles
             Shape{int8, 64, 16, 250, 9},   // tokens on both sides of a block
             Shape{int8, 256, 8, 255, 1},   // the block's last position
             Shape{int8, 256, 8, 256, 2},   // the next one's first
             Shape{int8, 192, 5, 700, 34},  // several blocks
         }) {
      SCOPED_TRACE(::testing::Message()
                   << (int8 ? "int8 " : "16 bit ") << shape.head_dim << " dims, " << shape.heads << " heads, "
                   << shape.tokens << " tokens from " << shape.position);
      Case c(shape, 1.6F / std::sqrt(static_cast<float>(shape.head_dim)));
      c.attend(0, shape.tokens);
      c.expect_softmax(tolerance::kAttentionTiles);
    }
  }
}

// All weights equal, and all weight on a few positions, wherever they lie: blocks whose maximum rises by much
// and blocks whose does not.
TEST(TileAttention, FlatAndSharpSoftmax) {
  const Shape shape{false, 64, 4, 700, 40};
  for (const auto& [scale, bound] :
       {std::pair(0.0F, tolerance::kAttentionTiles), std::pair(3.0F, tolerance::kAttentionTilesSharp)}) {
    SCOPED_TRACE(scale);
    Case c(shape, scale);
    c.attend(0, shape.tokens);
    c.expect_softmax(bound);
  }
}

TEST(TileAttention, ATokenDoesNotDependOnTheOthers) {
  const Shape shape{false, 64, 3, 230, 60};
  Case together(shape, 0.2F), apart(shape, 0.2F);
  together.attend(0, 60);
  for (const auto& [first, count] : {std::pair(0, 1), std::pair(1, 25), std::pair(26, 1), std::pair(27, 33)})
    apart.attend(first, count);
  EXPECT_EQ(apart.values(), together.values());
  EXPECT_EQ(apart.sums(), together.sums());
}

TEST(TileAttention, WhatIsNotFiniteIsNoticed) {
  const Shape shape{false, 64, 2, 300, 3};
  Case c(shape, 0.2F);
  c.value_scales()[static_cast<std::size_t>(value_scale_index(64, 10, 0))] = NAN;
  c.attend(0, 3);
  EXPECT_TRUE(std::isnan(c.values()[0]));
}

}  // namespace
}  // namespace lily::cpu
