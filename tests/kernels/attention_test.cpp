// The KV cache and attention over its blocks against fp64 over the stored values.
#include <cmath>

#include "base/bf16.hpp"
#include "kernels/kernel_test.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

constexpr int kDim = 256;
constexpr int kGroups = kDim / kGroup;

class Attention : public KernelTest {
 protected:
  struct Cache {
    std::vector<std::int16_t> keys16, values16;
    std::vector<std::uint8_t> keys8;
    std::vector<std::int8_t> values8;
    std::vector<float> key_scales, value_scales;
    KvView view;

    double key(int position, int d) const {
      const int code = view.int8 ? keys8[static_cast<std::size_t>(key_code_index(kDim, position, d))] - 128
                                 : keys16[static_cast<std::size_t>(key_index(kDim, position, d))];
      return code *
             static_cast<double>(key_scales[static_cast<std::size_t>(key_scale_index(kDim, position, d))]);
    }
    double value(int position, int d) const {
      const int code = view.int8 ? values8[static_cast<std::size_t>(value_code_index(kDim, position, d))]
                                 : values16[static_cast<std::size_t>(value_index(kDim, position, d))];
      return code * static_cast<double>(
                        value_scales[static_cast<std::size_t>(value_scale_index(kDim, position, d))]);
    }
  };

  // What was never written has the largest codes and a NaN scale: it must not be used.
  static Cache empty_cache(bool int8, int capacity) {
    const auto n =
        static_cast<std::size_t>((capacity + kAttentionBlock - 1) / kAttentionBlock * kAttentionBlock);
    Cache cache;
    if (int8) {
      cache.keys8.assign(n * kDim, 255);
      cache.values8.assign(n * kDim, -128);
      cache.view = {true, cache.keys8.data(), cache.values8.data(), nullptr, nullptr};
    } else {
      cache.keys16.assign(n * kDim, INT16_MIN);
      cache.values16.assign(n * kDim, INT16_MIN);
      cache.view = {false, cache.keys16.data(), cache.values16.data(), nullptr, nullptr};
    }
    cache.key_scales.assign(n * kGroups, NAN);
    cache.value_scales.assign(n * kGroups, NAN);
    cache.view.key_scales = cache.key_scales.data();
    cache.view.value_scales = cache.value_scales.data();
    return cache;
  }

  void expect_attention(bool int8, int positions, int heads) {
    SCOPED_TRACE(testing::Message() << (int8 ? "int8, " : "f16, ") << positions << " positions, " << heads
                                    << " heads");
    Cache cache = empty_cache(int8, positions);
    for (int p = 0; p < positions; ++p) {
      kernels().store_kv(cache.view, kDim, p, normals(kDim).data(), normals(kDim).data());
    }
    std::vector<float> queries = normals(static_cast<std::size_t>(heads) * kDim);
    for (float& q : queries) q *= 0.5F;  // scores of some tens: the softmax is sharp

    std::vector<float> maximum(static_cast<std::size_t>(heads), -INFINITY), sum(maximum.size()),
        values(static_cast<std::size_t>(heads) * kDim);
    const AttentionState state{maximum.data(), sum.data(), values.data()};
    for (int begin = 0; begin < positions; begin += kAttentionBlock) {
      kernels().attend(cache.view, kDim, queries.data(), heads, begin,
                       std::min(begin + kAttentionBlock, positions), state);
    }

    const bool bytes = kernels().attend_codes != nullptr;
    expect_softmax(cache, queries, heads, positions, values, sum,
                   !int8   ? tolerance::kAttentionPairs
                   : bytes ? tolerance::kAttentionTwoTerms
                           : 4 * tolerance::kAttention);
  }

  static void expect_softmax(const Cache& cache, const std::vector<float>& queries, int heads, int positions,
                             const std::vector<float>& values, const std::vector<float>& sum,
                             double tolerance) {
    for (int h = 0; h < heads; ++h) {
      const float* query = queries.data() + static_cast<std::ptrdiff_t>(h) * kDim;
      std::vector<double> weights;
      double largest = -INFINITY, total = 0;
      for (int p = 0; p < positions; ++p) {
        double score = 0;
        for (int d = 0; d < kDim; ++d) score += query[d] * cache.key(p, d);
        weights.push_back(score);
        largest = std::max(largest, score);
      }
      for (double& weight : weights) total += weight = std::exp(weight - largest);
      for (int d = 0; d < kDim; ++d) {
        double expected = 0;
        for (int p = 0; p < positions; ++p)
          expected += weights[static_cast<std::size_t>(p)] * cache.value(p, d);
        const auto i = static_cast<std::size_t>(h);
        ASSERT_NEAR(values[i * kDim + static_cast<std::size_t>(d)] / sum[i], expected / total, tolerance)
            << "head " << h << ", dim " << d;
      }
    }
  }

  // Three blocks by `fast` attention.
  void expect_codes(bool int8, int heads, float sharpness) {
    SCOPED_TRACE(testing::Message() << (int8 ? "int8, " : "f16, ") << heads << " heads, " << sharpness);
    constexpr int kPositions = 3 * kAttentionBlock;
    Cache cache = empty_cache(int8, kPositions);
    for (int p = 0; p < kPositions; ++p) {
      kernels().store_kv(cache.view, kDim, p, normals(kDim).data(), normals(kDim).data());
    }
    std::vector<float> queries = normals(static_cast<std::size_t>(heads) * kDim);
    for (float& q : queries) q *= sharpness;
    std::vector<float> maximum(static_cast<std::size_t>(heads), -INFINITY), sum(maximum.size()),
        values(static_cast<std::size_t>(heads) * kDim);
    std::vector<std::uint8_t> keys(kAttentionBlock * kDim);
    std::vector<std::int8_t> codes(keys.size());
    std::vector<float> key_scales(keys.size() / kGroup), value_scales(kDim);
    const KvCodes room{keys.data(), key_scales.data(), codes.data(), value_scales.data()};
    for (int begin = 0; begin < kPositions; begin += kAttentionBlock) {
      const KvCodes block = kernels().encode_block(cache.view, kDim, begin, room);
      kernels().attend_codes(block, kDim, queries.data(), heads, {maximum.data(), sum.data(), values.data()});
    }
    expect_softmax(cache, queries, heads, kPositions, values, sum, tolerance::kAttentionCodes);
  }
};

TEST_P(Attention, BlocksAndTheirNeighbours) {
  for (const bool int8 : {false, true}) {
    for (const int positions : {1, 15, 16, 17, 255, 256, 257, 600}) expect_attention(int8, positions, 8);
  }
}

TEST_P(Attention, EveryNumberOfHeads) {
  for (int heads = 1; heads <= 16; ++heads) expect_attention(heads % 2 == 0, 40, heads);
}

// All products of a group have the largest size and one sign, in scores and in sums of values.
TEST_P(Attention, LargestSumsDoNotOverflow) {
  for (const float sign : {1.0F, -1.0F}) {
    Cache cache = empty_cache(false, kAttentionBlock);
    const std::vector<float> ones(kDim, sign), queries(kDim, 0.01F);
    for (int p = 0; p < kAttentionBlock; ++p) {
      kernels().store_kv(cache.view, kDim, p, ones.data(), ones.data());
    }
    float maximum = -INFINITY, sum = 0;
    std::vector<float> values(kDim);
    kernels().attend(cache.view, kDim, queries.data(), 1, 0, kAttentionBlock,
                     {&maximum, &sum, values.data()});
    EXPECT_NEAR(maximum, sign * 0.01F * kDim, 1e-3);
    for (const float value : values) EXPECT_NEAR(value / sum, sign, 1e-3);
  }
}

// Storing, codes of queries and weights, and sums together, against halves of keys and values and nothing
// else: keys of one size, and keys with channels that are 20 times as large, as trained models have.
TEST_P(Attention, SixteenBitsAreNoWorseThanHalves) {
  constexpr int kPositions = kAttentionBlock;
  for (const float outlier : {1.0F, 20.0F}) {
    Cache cache = empty_cache(false, kPositions);
    std::vector<float> keys = normals(kPositions * kDim), values = normals(keys.size());
    for (std::size_t p = 0; p < kPositions; ++p) {
      for (const std::size_t d : {5, 77, 200}) keys[p * kDim + d] *= outlier;
      kernels().store_kv(cache.view, kDim, static_cast<int>(p), &keys[p * kDim], &values[p * kDim]);
    }
    constexpr int kHeads = 8;
    std::vector<float> queries = normals(kHeads * kDim);
    for (float& q : queries) q *= 0.06F;
    std::vector<float> maximum(kHeads, -INFINITY), sum(kHeads), out(kHeads * kDim);
    kernels().attend(cache.view, kDim, queries.data(), kHeads, 0, kPositions,
                     {maximum.data(), sum.data(), out.data()});

    const auto softmax = [&](int head, const auto& rounded) {
      std::vector<double> result(kDim);
      double total = 0;
      for (std::size_t p = 0; p < kPositions; ++p) {
        double score = 0;
        for (std::size_t d = 0; d < kDim; ++d) {
          score += queries[static_cast<std::size_t>(head) * kDim + d] * rounded(keys[p * kDim + d]);
        }
        total += std::exp(score);
        for (std::size_t d = 0; d < kDim; ++d) result[d] += std::exp(score) * rounded(values[p * kDim + d]);
      }
      for (double& value : result) value /= total;
      return result;
    };
    double error = 0, error_of_halves = 0;
    for (int h = 0; h < kHeads; ++h) {
      const auto exact = softmax(h, [](float x) { return static_cast<double>(x); });
      const auto halves =
          softmax(h, [](float x) { return static_cast<double>(half_to_float(float_to_half(x))); });
      const auto at = static_cast<std::size_t>(h);
      for (std::size_t d = 0; d < kDim; ++d) {
        error += std::pow(out[at * kDim + d] / sum[at] - exact[d], 2);
        error_of_halves += std::pow(halves[d] - exact[d], 2);
      }
    }
    EXPECT_LT(error, error_of_halves) << "outliers of " << outlier;
  }
}

TEST_P(Attention, CodesOfWholeBlocks) {
  if (kernels().attend_codes == nullptr) {
    GTEST_SKIP() << kernels().name << " does not multiply unsigned with signed bytes";
  }
  for (const bool int8 : {false, true}) {
    for (const float sharpness : {0.0F, 0.01F, 0.05F, 0.1F}) expect_codes(int8, 8, sharpness);
    for (const int heads : {1, 2, 3, 7, 16}) expect_codes(int8, heads, 0.05F);
  }
}

TEST_P(Attention, WhatIsNotFiniteReachesTheResult) {
  for (const bool int8 : {false, true}) {
    for (const bool in_key : {false, true}) {
      Cache cache = empty_cache(int8, kAttentionBlock);
      for (int p = 0; p < kAttentionBlock; ++p) {
        std::vector<float> key = normals(kDim), value = normals(kDim);
        if (p == 100) (in_key ? key : value)[70] = INFINITY;
        kernels().store_kv(cache.view, kDim, p, key.data(), value.data());
      }
      const std::vector<float> queries(kDim, 0.01F);
      const auto bad = [&](const auto& attend) {
        float maximum = -INFINITY, sum = 0;
        std::vector<float> values(kDim);
        attend(AttentionState{&maximum, &sum, values.data()});
        int found = 0;
        for (const float v : values) found += std::isfinite(v / sum) ? 0 : 1;
        return found;
      };
      SCOPED_TRACE(testing::Message() << (int8 ? "int8" : "f16") << (in_key ? " key" : " value"));
      EXPECT_GT(bad([&](const AttentionState& state) {
                  kernels().attend(cache.view, kDim, queries.data(), 1, 0, kAttentionBlock, state);
                }),
                0);
      if (kernels().attend_codes == nullptr) continue;
      std::vector<std::uint8_t> keys(kAttentionBlock * kDim);
      std::vector<std::int8_t> codes(keys.size());
      std::vector<float> key_scales(keys.size() / kGroup), value_scales(kDim);
      const KvCodes block = kernels().encode_block(
          cache.view, kDim, 0, {keys.data(), key_scales.data(), codes.data(), value_scales.data()});
      EXPECT_GT(bad([&](const AttentionState& state) {
                  kernels().attend_codes(block, kDim, queries.data(), 1, state);
                }),
                0);
    }
  }
}

TEST_P(Attention, StoringRoundsToTheFormat) {
  for (const bool int8 : {false, true}) {
    Cache cache = empty_cache(int8, 40);
    const std::vector<float> key = normals(kDim), value = normals(kDim);
    kernels().store_kv(cache.view, kDim, 37, key.data(), value.data());
    for (int d = 0; d < kDim; ++d) {
      const auto i = static_cast<std::size_t>(d);
      float largest_key = 0, largest_value = 0;
      for (int j = d / kGroup * kGroup; j < (d / kGroup + 1) * kGroup; ++j) {
        largest_key = std::max(largest_key, std::fabs(key[static_cast<std::size_t>(j)]));
        largest_value = std::max(largest_value, std::fabs(value[static_cast<std::size_t>(j)]));
      }
      const double step = int8 ? tolerance::kOneTerm : tolerance::kPair;
      EXPECT_NEAR(cache.key(37, d), key[i], largest_key * step) << d;
      EXPECT_NEAR(cache.value(37, d), value[i], largest_value * step) << d;
    }
  }
}

LILY_FOR_ALL_INSTRUCTION_SETS(Attention);

}  // namespace
}  // namespace lily::cpu
