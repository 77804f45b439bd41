// Attention on matrix tiles against fp64 sums over the cache as it is stored, halves and 8-bit codes.
#include <cmath>

#include "backend/reference/norms.hpp"
#include "backend/reference/rope.hpp"
#include "backend/reference/scalar.hpp"
#include "gpu/device_test.hpp"
#include "gpu/rope_turns.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

constexpr std::size_t kDim = CacheRows::dim;
constexpr std::size_t kGroup = CacheRows::group;
constexpr double kTheta = 1e7, kEps = 1e-6;

struct Shape {
  uint heads, kv_heads, position, tokens, splits;
};

class AttentionTiles : public DeviceTest {
 protected:
  // A cache filled up to `position + tokens`, NaN beyond, as device arrays and as numbers.
  struct Cache {
    half *half_keys, *half_values;
    uchar *keys, *values;
    float *key_scales, *value_scales;
    std::vector<double> half_key, half_value, key, value;  // [kv head][capacity][256]
  };

  Cache cache(const Shape& shape, uint capacity) {
    const std::size_t count = std::size_t{shape.kv_heads} * capacity * kDim;
    std::vector<half> halves[2];
    std::vector<uchar> codes[2];
    std::vector<float> scales[2];
    std::vector<double> wide[2], coded[2];
    for (int which = 0; which < 2; ++which) {
      for (std::size_t i = 0; i < count; ++i) {
        const bool used = i / kDim % capacity < shape.position + shape.tokens;
        if (i % kGroup == 0) scales[which].push_back(used ? uniform(0.2F, 2) / 127 : NAN);
        const int code = static_cast<int>(random_bits() % 255) - 127;
        const auto x = static_cast<half>(used ? uniform(-2, 2) : NAN);
        halves[which].push_back(x);
        wide[which].push_back(static_cast<double>(x));
        codes[which].push_back(static_cast<uchar>(code));
        coded[which].push_back(static_cast<double>(scales[which].back()) * code);
      }
    }
    return {upload(halves[0]), upload(halves[1]), upload(codes[0]), upload(codes[1]), upload(scales[0]),
            upload(scales[1]), wide[0],           wide[1],          coded[0],         coded[1]};
  }

  static std::vector<double> attention(std::span<const float> query, std::span<const double> keys,
                                       std::span<const double> values, std::size_t positions) {
    std::vector<double> scores, y(kDim);
    double largest = -INFINITY, sum = 0;
    for (std::size_t p = 0; p < positions; ++p) {
      double score = 0;
      for (std::size_t i = 0; i < kDim; ++i) score += query[i] * keys[p * kDim + i];
      scores.push_back(score);
      largest = std::max(largest, score);
    }
    for (std::size_t p = 0; p < positions; ++p) {
      const double weight = std::exp(scores[p] - largest);
      sum += weight;
      for (std::size_t i = 0; i < kDim; ++i) y[i] += weight * values[p * kDim + i];
    }
    for (double& value : y) value /= sum;
    return y;
  }

  void expect_attention(const std::vector<float>& found, const Shape& shape, uint capacity,
                        const std::vector<float>& queries, const std::vector<float>& projection,
                        const std::vector<double>& keys, const std::vector<double>& values,
                        double tolerance) {
    const std::size_t stride = projection.size() / shape.tokens;
    for (std::size_t token = 0; token < shape.tokens; ++token) {
      for (std::size_t head = 0; head < shape.heads; ++head) {
        const std::size_t at = (token * shape.heads + head) * kDim;
        const std::size_t kv = head / (shape.heads / shape.kv_heads) * capacity * kDim;
        const auto expected = attention(std::span(queries).subspan(at, kDim), std::span(keys).subspan(kv),
                                        std::span(values).subspan(kv), shape.position + token + 1);
        for (std::size_t i = 0; i < kDim; ++i) {
          const double gate = projection[token * stride + head * 2 * kDim + kDim + i];
          ASSERT_NEAR(found[at + i], expected[i] * reference::sigmoid(gate), tolerance)
              << "position " << shape.position + token << ", head " << head << ", " << i;
        }
      }
    }
  }

  std::vector<float> random_queries(const Shape& shape) {
    std::vector<float> queries = uniforms(std::size_t{shape.tokens} * shape.heads * kDim, -0.1F, 0.1F);
    for (std::size_t i = 0; i < queries.size(); i += 7) queries[i] *= 10;  // scores up to some 20
    return queries;
  }
};

TEST_P(AttentionTiles, DecodeIsTheSoftmaxForHalvesAndCodes) {
  for (const Shape shape : {Shape{4, 2, 0, 1, 1}, Shape{16, 2, 30, 2, 3}, Shape{4, 2, 31, 1, 4},
                            Shape{2, 2, 32, 1, 2}, Shape{8, 1, 255, 1, 8}, Shape{6, 2, 150, 1, 2},
                            Shape{1, 1, 70, 1, 300}, Shape{3, 1, 700, 2, 1}, Shape{1, 1, 2300, 1, 72}}) {
    const uint capacity = shape.position + shape.tokens + 3;
    const Cache c = cache(shape, capacity);
    const std::size_t heads = std::size_t{shape.tokens} * shape.heads;
    const std::vector<float> queries = random_queries(shape);
    const std::vector<float> projection = uniforms(heads * 2 * kDim, -3, 3);
    AttentionDecode a{};
    a.queries = upload(queries);
    a.keys = c.half_keys;
    a.values = c.half_values;
    a.position = upload(std::vector<uint>{shape.position});
    a.partial = room<float>(heads * shape.splits * kDim);
    a.maximum = room<float>(heads * shape.splits);
    a.sums = room<float>(heads * shape.splits);
    a.heads = shape.heads;
    a.kv_heads = shape.kv_heads;
    a.splits = shape.splits;
    a.capacity = capacity;
    float* y = room<float>(heads * kDim);
    const AttentionCombine combine{a.partial, a.maximum,   a.sums,       upload(projection),
                                   y,         shape.heads, shape.splits, 2 * shape.heads * uint{kDim}};
    run(a, {shape.kv_heads * shape.splits, shape.tokens});
    run(combine, {shape.heads * AttentionCombine::groups, shape.tokens});
    expect_attention(download(y, heads * kDim), shape, capacity, queries, projection, c.half_key,
                     c.half_value, tolerance::kAttention);

    run(AttentionDecodeInt8{a.queries, c.keys, c.values, c.key_scales, c.value_scales, a.position, a.partial,
                            a.maximum, a.sums, a.heads, a.kv_heads, a.splits, capacity},
        {shape.kv_heads * shape.splits, shape.tokens});
    run(combine, {shape.heads * AttentionCombine::groups, shape.tokens});
    expect_attention(download(y, heads * kDim), shape, capacity, queries, projection, c.key, c.value,
                     tolerance::kAttention);
  }
}

TEST_P(AttentionTiles, PrefillIsTheCausalSoftmaxForHalvesAndCodes) {
  for (const Shape shape : {Shape{4, 2, 0, 1, 1}, Shape{16, 2, 0, 9, 1}, Shape{2, 2, 30, 65, 1},
                            Shape{6, 2, 5, 33, 1}, Shape{8, 1, 100, 2, 1}}) {
    const uint capacity = shape.position + shape.tokens + 3;
    const Cache c = cache(shape, capacity);
    const std::size_t heads = std::size_t{shape.tokens} * shape.heads;
    const std::vector<float> queries = random_queries(shape);
    const std::vector<float> projection = uniforms(heads * 2 * kDim, -3, 3);
    AttentionPrefill a{};
    a.queries = upload(queries);
    a.keys = c.half_keys;
    a.values = c.half_values;
    a.projection = upload(projection);
    a.position = upload(std::vector<uint>{shape.position});
    float* y = room<float>(heads * kDim);
    a.y = y;
    a.tokens = shape.tokens;
    a.heads = shape.heads;
    a.kv_heads = shape.kv_heads;
    a.stride = 2 * shape.heads * uint{kDim};
    a.capacity = capacity;
    const Grid grid{shape.kv_heads, divide_up(heads / shape.kv_heads, AttentionPrefill::rows)};
    run(a, grid);
    expect_attention(download(y, heads * kDim), shape, capacity, queries, projection, c.half_key,
                     c.half_value, 2 * tolerance::kAttentionHalves);

    // Codes: converted, then the same.
    constexpr uint kGroups = 3;
    half *keys = room<half>(c.half_key.size()), *values = room<half>(c.half_value.size());
    const Grid groups{kGroups, shape.kv_heads};
    run(CacheHalves{c.keys, c.key_scales, a.position, keys, a.tokens, capacity, kGroups}, groups);
    run(CacheHalves{c.values, c.value_scales, a.position, values, a.tokens, capacity, kGroups}, groups);
    a.keys = keys;
    a.values = values;
    run(a, grid);
    expect_attention(download(y, heads * kDim), shape, capacity, queries, projection, c.key, c.value,
                     2 * tolerance::kAttentionHalves);
  }
}

TEST_P(AttentionTiles, PrepareInt8StoresCodesOfNormalizedRotatedKeysAndOfValues) {
  constexpr uint kHeads = 4, kKvHeads = 2, kTokens = 2, kCapacity = 9, kPosition = 6;
  const uint k_row = 2 * kHeads * kDim, v_row = k_row + kKvHeads * kDim, stride = v_row + kKvHeads * kDim;
  std::vector<float> projection = uniforms(std::size_t{kTokens} * stride, -3, 3);
  std::fill_n(projection.begin() + v_row, kGroup, 0.0F);  // a group without a scale
  projection[stride + v_row + kGroup + 5] = NAN;          // and one whose scale must tell
  const std::vector<float> q_norm = uniforms(kDim, 0.5F, 1.5F), k_norm = uniforms(kDim, 0.5F, 1.5F);
  const std::size_t slots = std::size_t{kKvHeads} * kCapacity;
  uint *keys = room<uint>(slots * kDim / 4), *values = room<uint>(slots * kDim / 4);
  float *key_scales = room<float>(slots * 4), *value_scales = room<float>(slots * 4);
  float* queries = room<float>(kTokens * kHeads * kDim);
  run(AttentionPrepareInt8{upload(projection), upload(q_norm), upload(k_norm), upload(rope_turns(kTheta)),
                           upload(std::vector<uint>{kPosition}), queries, keys, values, key_scales,
                           value_scales, kHeads, kKvHeads, stride, k_row, v_row, kCapacity,
                           static_cast<float>(kEps)},
      {kHeads + kKvHeads, kTokens});
  const auto found_queries = download(queries, kTokens * kHeads * kDim);
  const auto expect_codes = [&](uint* codes, float* scales, std::size_t slot, std::span<const float> x) {
    const auto words = download(codes + slot * kDim / 4, kDim / 4);
    const auto scale = download(scales + slot * 4, 4);
    for (std::size_t group = 0; group < 4; ++group) {
      if (std::isnan(x[group * kGroup + 5])) {
        ASSERT_TRUE(std::isnan(scale[group]));
        continue;
      }
      float largest = 0;
      for (std::size_t i = 0; i < kGroup; ++i) largest = std::max(largest, std::fabs(x[group * kGroup + i]));
      ASSERT_NEAR(scale[group], largest / 127, tolerance::kRotation * largest);
      for (std::size_t i = group * kGroup; i < (group + 1) * kGroup; ++i) {
        const auto code = static_cast<std::int8_t>(words[i / 4] >> (8 * (i % 4)) & 255U);
        ASSERT_NEAR(code * scale[group], x[i], 0.5001F * scale[group] + tolerance::kRotation) << i;
      }
    }
  };
  for (uint token = 0; token < kTokens; ++token) {
    const auto row = std::span(projection).subspan(std::size_t{token} * stride, stride);
    const auto expected = [&](std::size_t first, const std::vector<float>& norm) {
      std::vector<float> head(kDim);
      reference::rms_norm(row.subspan(first, kDim), norm, kEps, head);
      reference::rotate(head, 64, kTheta, static_cast<int>(kPosition + token));
      return head;
    };
    for (uint head = 0; head < kHeads; ++head) {
      const auto q = expected(head * 2 * kDim, q_norm);
      for (std::size_t i = 0; i < kDim; ++i) {
        ASSERT_NEAR(found_queries[(token * kHeads + head) * kDim + i], q[i] / 16, tolerance::kRotation) << i;
      }
    }
    for (uint head = 0; head < kKvHeads; ++head) {
      const std::size_t slot = std::size_t{head} * kCapacity + kPosition + token;
      expect_codes(keys, key_scales, slot, expected(k_row + head * kDim, k_norm));
      expect_codes(values, value_scales, slot, row.subspan(v_row + head * kDim, kDim));
    }
  }
}

// Drivers may run the three as fewer.
TEST_P(AttentionTiles, ATokenIsPreparedAppendedAndAttendsInOnePlan) {
  for (const Shape shape : {Shape{4, 2, 0, 1, 1}, Shape{16, 2, 37, 1, 2}, Shape{2, 1, 64, 1, 2},
                            Shape{6, 2, 330, 1, 1}, Shape{8, 1, 500, 1, 9}}) {
    const uint capacity = shape.position + 3, k_row = 2 * shape.heads * uint{kDim},
               v_row = k_row + shape.kv_heads * uint{kDim}, stride = v_row + shape.kv_heads * uint{kDim};
    Cache c = cache({shape.heads, shape.kv_heads, shape.position, 0, shape.splits}, capacity);
    const std::vector<float> projection = uniforms(stride, -3, 3);
    const std::vector<float> q_norm = uniforms(kDim, 0.5F, 1.5F), k_norm = uniforms(kDim, 0.5F, 1.5F);
    const auto rotated = [&](std::size_t first, const std::vector<float>& norm) {
      std::vector<float> head(kDim);
      reference::rms_norm(std::span(projection).subspan(first, kDim), norm, kEps, head);
      reference::rotate(head, 64, kTheta, static_cast<int>(shape.position));
      return head;
    };
    std::vector<float> queries;
    for (uint head = 0; head < shape.heads; ++head) {
      for (const float q : rotated(std::size_t{head} * 2 * kDim, q_norm)) queries.push_back(q / 16);
    }
    const auto fill = [&](auto& prepare, auto& decode) {
      prepare.projection = upload(projection);
      prepare.q_norm = upload(q_norm);
      prepare.k_norm = upload(k_norm);
      prepare.turns = upload(rope_turns(kTheta));
      decode.position = prepare.position = upload(std::vector<uint>{shape.position});
      decode.queries = prepare.queries = room<float>(shape.heads * kDim);
      decode.partial = room<float>(std::size_t{shape.heads} * shape.splits * kDim);
      decode.maximum = room<float>(std::size_t{shape.heads} * shape.splits);
      decode.sums = room<float>(std::size_t{shape.heads} * shape.splits);
      decode.heads = prepare.heads = shape.heads;
      decode.kv_heads = prepare.kv_heads = shape.kv_heads;
      decode.capacity = prepare.capacity = capacity;
      decode.splits = shape.splits;
      prepare.stride = stride;
      prepare.k_row = k_row;
      prepare.v_row = v_row;
      prepare.eps = static_cast<float>(kEps);
    };
    const auto attend = [&](const auto& prepare, const auto& decode) {
      float* y = room<float>(shape.heads * kDim);
      Plan plan;
      plan.add(prepare, {shape.heads + shape.kv_heads}, {},
               {region(prepare.queries, shape.heads * kDim), region(prepare.keys, 1)});
      plan.add(decode, {shape.kv_heads * shape.splits},
               {region(decode.queries, shape.heads * kDim), region(decode.keys, 1)},
               {region(decode.partial, 1)});
      plan.add(AttentionCombine{decode.partial, decode.maximum, decode.sums, prepare.projection, y,
                                shape.heads, shape.splits, stride},
               {shape.heads * AttentionCombine::groups}, {region(decode.partial, 1)}, {region(y, 1)});
      device().run(plan);
      return download(y, shape.heads * kDim);
    };
    const auto slot = [&](uint head) { return std::size_t{head} * capacity + shape.position; };
    // Errors of a query's elements, kRotation each, move a score by as much as that times its keys' length.
    const double tolerance = tolerance::kAttention + 20 * tolerance::kRotation;

    AttentionPrepare prepare{};
    AttentionDecode decode{};
    fill(prepare, decode);
    decode.keys = prepare.keys = c.half_keys;
    decode.values = prepare.values = c.half_values;
    const auto y = attend(prepare, decode);
    for (uint head = 0; head < shape.kv_heads; ++head) {
      const auto key = download(c.half_keys + slot(head) * kDim, kDim),
                 value = download(c.half_values + slot(head) * kDim, kDim);
      const auto expected = rotated(k_row + head * kDim, k_norm);
      for (std::size_t i = 0; i < kDim; ++i) {
        ASSERT_NEAR(static_cast<float>(key[i]), expected[i],
                    tolerance::kHalf * std::fabs(expected[i]) + tolerance::kRotation);
        ASSERT_EQ(static_cast<float>(value[i]),
                  half_to_float(float_to_half(projection[v_row + head * kDim + i])));
        c.half_key[slot(head) * kDim + i] = static_cast<double>(key[i]);
        c.half_value[slot(head) * kDim + i] = static_cast<double>(value[i]);
      }
    }
    expect_attention(y, shape, capacity, queries, projection, c.half_key, c.half_value, tolerance);

    AttentionPrepareInt8 prepare_codes{};
    AttentionDecodeInt8 decode_codes{};
    fill(prepare_codes, decode_codes);
    decode_codes.keys = c.keys;
    decode_codes.values = c.values;
    prepare_codes.keys = reinterpret_cast<uint*>(c.keys);
    prepare_codes.values = reinterpret_cast<uint*>(c.values);
    decode_codes.key_scales = prepare_codes.key_scales = c.key_scales;
    decode_codes.value_scales = prepare_codes.value_scales = c.value_scales;
    const auto z = attend(prepare_codes, decode_codes);
    for (uint head = 0; head < shape.kv_heads; ++head) {
      const auto take = [&](uchar* codes, float* scales, std::vector<double>& numbers, std::size_t i) {
        const std::size_t at = slot(head) * kDim + i;
        const auto code = static_cast<std::int8_t>(download(codes + at, 1)[0]);
        const float scale = download(scales + at / kGroup, 1)[0];
        numbers[at] = static_cast<double>(scale) * code;
        return scale;
      };
      const auto expected = rotated(k_row + head * kDim, k_norm);
      for (std::size_t i = 0; i < kDim; ++i) {
        const float key_step = take(c.keys, c.key_scales, c.key, i),
                    value_step = take(c.values, c.value_scales, c.value, i);
        const std::size_t at = slot(head) * kDim + i;
        ASSERT_NEAR(c.key[at], expected[i], 0.5001F * key_step + tolerance::kRotation);
        ASSERT_NEAR(c.value[at], projection[v_row + head * kDim + i],
                    0.5001F * value_step + tolerance::kRotation);
      }
    }
    expect_attention(z, shape, capacity, queries, projection, c.key, c.value, tolerance);
  }
}

LILY_FOR_ALL_DEVICES(AttentionTiles);

}  // namespace
}  // namespace lily::gpu
