// Attention against the reference's formulas: norms, rotation, the cache, splits.
#include <cmath>

#include "backend/reference/norms.hpp"
#include "backend/reference/rope.hpp"
#include "backend/reference/scalar.hpp"
#include "base/bf16.hpp"
#include "gpu/device_test.hpp"
#include "gpu/rope_turns.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

constexpr std::size_t kDim = AttentionSplit::dim;
constexpr double kTheta = 1e7, kEps = 1e-6;

class Attention : public DeviceTest {};

TEST_P(Attention, PrepareNormalizesRotatesAndStores) {
  constexpr uint kHeads = 4, kKvHeads = 2, kTokens = 2, kCapacity = 262144 + 2;
  const uint k_row = 2 * kHeads * kDim, v_row = k_row + kKvHeads * kDim, stride = v_row + kKvHeads * kDim;
  const std::vector<float> projection = uniforms(std::size_t{kTokens} * stride, -3, 3);
  const std::vector<float> q_norm = uniforms(kDim, 0.5F, 1.5F), k_norm = uniforms(kDim, 0.5F, 1.5F);
  half* keys = room<half>(std::size_t{kKvHeads} * kCapacity * kDim);
  half* values = room<half>(std::size_t{kKvHeads} * kCapacity * kDim);
  for (const uint position : {0U, 1U, 4095U, 131071U, 262142U}) {
    AttentionPrepare a{};
    a.projection = upload(projection);
    a.q_norm = upload(q_norm);
    a.k_norm = upload(k_norm);
    a.turns = upload(rope_turns(kTheta));
    a.position = upload(std::vector<uint>{position});
    float* queries = room<float>(kTokens * kHeads * kDim);
    a.queries = queries;
    a.keys = keys;
    a.values = values;
    a.heads = kHeads;
    a.kv_heads = kKvHeads;
    a.stride = stride;
    a.k_row = k_row;
    a.v_row = v_row;
    a.capacity = kCapacity;
    a.eps = static_cast<float>(kEps);
    run(a, {kHeads + kKvHeads, kTokens});
    const auto found = download(queries, kTokens * kHeads * kDim);
    for (uint token = 0; token < kTokens; ++token) {
      const auto row = std::span(projection).subspan(std::size_t{token} * stride, stride);
      const auto expected = [&](std::size_t first, const std::vector<float>& norm) {
        std::vector<float> head(kDim);
        reference::rms_norm(row.subspan(first, kDim), norm, kEps, head);
        reference::rotate(head, 64, kTheta, static_cast<int>(position + token));
        return head;
      };
      for (uint head = 0; head < kHeads; ++head) {
        const auto q = expected(head * 2 * kDim, q_norm);
        for (std::size_t i = 0; i < kDim; ++i) {
          ASSERT_NEAR(found[(token * kHeads + head) * kDim + i], q[i] / 16, tolerance::kRotation)
              << position << " " << i;
        }
      }
      for (uint head = 0; head < kKvHeads; ++head) {
        const std::size_t at = (std::size_t{head} * kCapacity + position + token) * kDim;
        const auto key = download(keys + at, kDim);
        const auto value = download(values + at, kDim);
        const auto k = expected(k_row + head * kDim, k_norm);
        for (std::size_t i = 0; i < kDim; ++i) {
          ASSERT_NEAR(static_cast<float>(key[i]), k[i],
                      tolerance::kHalf * std::fabs(k[i]) + tolerance::kRotation)
              << i;
          const float v = row[v_row + head * kDim + i];
          ASSERT_EQ(static_cast<float>(value[i]), half_to_float(float_to_half(v))) << i;
        }
      }
    }
  }
}

struct Shape {
  uint heads, kv_heads, splits, position, tokens;
};

TEST_P(Attention, SplitsPutTogetherAreTheSoftmax) {
  for (const Shape shape : {Shape{4, 2, 1, 0, 1}, Shape{16, 2, 3, 30, 4}, Shape{4, 2, 4, 31, 1},
                            Shape{2, 2, 2, 32, 1}, Shape{8, 1, 8, 255, 2}, Shape{6, 2, 5, 300, 1}}) {
    const uint capacity = shape.position + shape.tokens + 3, stride = 2 * shape.heads * kDim;
    std::vector<half> keys(std::size_t{shape.kv_heads} * capacity * kDim), values(keys.size());
    for (half& key : keys) key = static_cast<half>(uniform(-2, 2));
    for (half& value : values) value = static_cast<half>(uniform(-1, 1));
    const std::size_t heads = std::size_t{shape.tokens} * shape.heads;
    std::vector<float> queries = uniforms(heads * kDim, -0.1F, 0.1F);
    for (std::size_t i = 0; i < queries.size(); i += 7) queries[i] *= 10;  // scores up to some 20
    const std::vector<float> projection = uniforms(std::size_t{shape.tokens} * stride, -3, 3);
    AttentionSplit a{};
    a.queries = upload(queries);
    a.keys = upload(keys);
    a.values = upload(values);
    a.position = upload(std::vector<uint>{shape.position});
    a.partial = room<float>(heads * shape.splits * kDim);
    a.maximum = room<float>(heads * shape.splits);
    a.sums = room<float>(heads * shape.splits);
    a.heads = shape.heads;
    a.kv_heads = shape.kv_heads;
    a.splits = shape.splits;
    a.capacity = capacity;
    run(a, {shape.kv_heads * shape.splits, shape.tokens});
    float* y = room<float>(heads * kDim);
    run(AttentionCombine{a.partial, a.maximum, a.sums, upload(projection), y, shape.heads, shape.splits,
                         stride},
        {shape.heads, shape.tokens});
    const auto found = download(y, heads * kDim);

    for (std::size_t token = 0; token < shape.tokens; ++token) {
      for (std::size_t head = 0; head < shape.heads; ++head) {
        const std::size_t kv = head / (shape.heads / shape.kv_heads) * capacity;
        std::vector<double> scores, y_expected(kDim);
        double largest = -INFINITY, sum = 0;
        for (std::size_t p = 0; p <= shape.position + token; ++p) {
          double score = 0;
          for (std::size_t i = 0; i < kDim; ++i) {
            score += static_cast<double>(queries[(token * shape.heads + head) * kDim + i]) *
                     static_cast<double>(keys[(kv + p) * kDim + i]);
          }
          scores.push_back(score);
          largest = std::max(largest, score);
        }
        for (std::size_t p = 0; p < scores.size(); ++p) {
          const double weight = std::exp(scores[p] - largest);
          sum += weight;
          for (std::size_t i = 0; i < kDim; ++i)
            y_expected[i] += weight * static_cast<double>(values[(kv + p) * kDim + i]);
        }
        for (std::size_t i = 0; i < kDim; ++i) {
          const double gate = projection[token * stride + head * 2 * kDim + kDim + i];
          ASSERT_NEAR(found[(token * shape.heads + head) * kDim + i],
                      y_expected[i] / sum * reference::sigmoid(gate), tolerance::kAttention)
              << "position " << shape.position + token << ", head " << head;
        }
      }
    }
  }
}

LILY_FOR_ALL_DEVICES(Attention);

}  // namespace
}  // namespace lily::gpu
