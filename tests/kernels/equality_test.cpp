// Instruction sets against each other on the same inputs: quantized codes are equal to the bit, everything
// else within the tolerances that each has against fp64; products of terms in pairs equal their plain vector
// form.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/kernel_test.hpp"
#include "kernels/random_matrix.hpp"
#include "kernels/tolerances.hpp"

namespace lily::cpu {
namespace {

using testing::RandomMatrix;
using testing::RandomRows;

// Two kernels, each within `tolerance` of fp64, may be twice as far from each other.
void expect_near(const std::vector<float>& found, const std::vector<float>& expected, double tolerance) {
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  ASSERT_GT(largest, 0);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 2 * tolerance * largest) << "at " << i;
  }
}

// Every instruction set of this machine against the plain one.
class Equality : public KernelTest {
 protected:
  const Kernels& plain() const { return generic_kernels(); }
};

TEST_P(Equality, QuantizedCodesScalesAndSums) {
  for (const bool exact : {true, false}) {
    ActivationRows found(1, 2048, exact), expected(1, 2048, exact);
    std::vector<float> x = normals(2048);
    for (std::size_t i = 0; i < 64; ++i) x[i] = 0;
    for (std::size_t i = 64; i < 128; ++i) x[i] *= 1e5F;
    kernels().quantize(x.data(), 2048, found[0]);
    plain().quantize(x.data(), 2048, expected[0]);
    EXPECT_EQ(std::memcmp(found[0].high, expected[0].high, 2048), 0);
    if (exact) {
      EXPECT_EQ(std::memcmp(found[0].low, expected[0].low, 2048), 0);
    }
    for (int g = 0; g < 2048 / kGroup; ++g) {
      EXPECT_EQ(found[0].scales[g], expected[0].scales[g]) << g;
      EXPECT_EQ(found[0].sums[g], expected[0].sums[g]) << g;
    }
  }
}

TEST_P(Equality, MatrixProducts) {
  for (const int planes : {1, 2}) {
    const RandomMatrix matrix(80, 2048, planes);
    for (const bool exact : {true, false}) {
      for (const int tokens : {1, 3, 16, 37}) {
        SCOPED_TRACE(::testing::Message() << planes << " planes, " << tokens << " tokens, " << exact);
        const RandomRows rows(plain(), tokens, 2048, exact, true);
        std::vector<float> found(static_cast<std::size_t>(tokens) * 80), expected(found.size());
        kernels().matmul(matrix.packed(), 0, 5, rows.data(), tokens, found.data(), 80);
        plain().matmul(matrix.packed(), 0, 5, rows.data(), tokens, expected.data(), 80);
        // The terms that cancel within a product are some 40 times its size here.
        expect_near(found, expected, 40 * tolerance::kSum);
      }
    }
  }
}

TEST_P(Equality, Attention) {
  constexpr int kDim = 256, kHeads = 8, kPositions = 200;
  for (const bool int8 : {false, true}) {
    const auto run = [&](const Kernels& set, const std::vector<float>& rows,
                         const std::vector<float>& queries) {
      std::vector<std::byte> keys(kAttentionBlock * kDim * 2), values(keys.size());
      std::vector<float> key_scales(kAttentionBlock * kDim / kGroup), value_scales(key_scales.size());
      const KvView view{int8, keys.data(), values.data(), key_scales.data(), value_scales.data()};
      for (int p = 0; p < kPositions; ++p) {
        const float* row = rows.data() + static_cast<std::ptrdiff_t>(2 * p) * kDim;
        set.store_kv(view, kDim, p, row, row + kDim);
      }
      std::vector<float> maximum(kHeads, -INFINITY), sum(kHeads), out(kHeads * kDim);
      set.attend(view, kDim, queries.data(), kHeads, 0, kPositions, {maximum.data(), sum.data(), out.data()});
      for (int i = 0; i < kHeads * kDim; ++i) {
        out[static_cast<std::size_t>(i)] /= sum[static_cast<std::size_t>(i / kDim)];
      }
      return out;
    };
    const std::vector<float> rows = normals(2 * kPositions * kDim);
    std::vector<float> queries = normals(kHeads * kDim);
    for (float& q : queries) q *= 0.1F;
    const bool bytes = kernels().attend_codes != nullptr;
    expect_near(run(kernels(), rows, queries), run(plain(), rows, queries),
                !int8   ? tolerance::kAttentionPairs
                : bytes ? tolerance::kAttentionTwoTerms
                        : tolerance::kAttention);
  }
}

TEST_P(Equality, DeltaNet) {
  constexpr int kDim = 128, kTokens = 70;
  const auto run = [&](const Kernels& set, const std::vector<float>& inputs,
                       const std::vector<float>& gates) {
    std::vector<float> state(kDim * kDim), out(kTokens * kDim);
    DeltaNetRun head;
    head.state = state.data();
    head.queries = inputs.data();
    head.keys = inputs.data() + kDim;
    head.values = inputs.data() + 2 * kDim;
    head.alpha = gates.data();
    head.beta = gates.data() + 1;
    head.out = out.data();
    head.query_stride = head.key_stride = head.value_stride = 3 * kDim;
    head.gate_stride = 2;
    head.out_stride = kDim;
    head.tokens = kTokens;
    head.key_dim = head.value_dim = kDim;
    for (int block = 0; block < kDim / kLanes; ++block) set.delta_net(head, block);
    out.insert(out.end(), state.begin(), state.end());
    return out;
  };
  std::vector<float> inputs = normals(3 * kTokens * kDim), gates(2 * kTokens);
  for (int t = 0; t < kTokens; ++t) {
    float* row = inputs.data() + static_cast<std::ptrdiff_t>(3 * t) * kDim;
    plain().l2_normalize(row, 1e-6F, 1, kDim);
    plain().l2_normalize(row + kDim, 1e-6F, 1, kDim);
  }
  for (float& gate : gates) gate = 1 / (1 + std::exp(-normal()));
  expect_near(run(kernels(), inputs, gates), run(plain(), inputs, gates), tolerance::kDeltaNet);
}

TEST_P(Equality, Elementwise) {
  constexpr int kCount = 512;
  const std::vector<float> a = normals(kCount), b = normals(kCount), c = normals(kCount), d = normals(kCount);
  const auto both = [&](auto&& body) {
    std::vector<float> found = a, expected = a;
    body(kernels(), found.data());
    body(plain(), expected.data());
    // A few operations on sums of up to 512 numbers.
    expect_near(found, expected, tolerance::kElementwise + tolerance::kSum);
  };
  both([&](const Kernels& set, float* x) { set.rms_norm(x, b.data(), 1e-6F, kCount, x); });
  both([&](const Kernels& set, float* x) { set.l2_normalize(x, 1e-6F, 1, kCount); });
  both([&](const Kernels& set, float* x) { set.silu_multiply(x, b.data(), kCount, x); });
  both([&](const Kernels& set, float* x) { set.gated_rms_norm(x, b.data(), c.data(), 1e-6F, kCount, x); });
  both([&](const Kernels& set, float* x) { set.sigmoid_multiply(b.data(), kCount, x); });
  const float* rows[] = {b.data(), c.data(), d.data()};
  both([&](const Kernels& set, float* x) {
    const float weights[] = {0.5F, -1, 0.25F};
    set.add_weighted(rows, weights, 3, kCount, x);
  });
  both([&](const Kernels& set, float* x) { set.convolve(rows, 0, a.data(), kCount, 1, kCount, x); });
}

LILY_FOR_ALL_INSTRUCTION_SETS(Equality);

// `special` computes matrix products in its own way, everything else as `base`: their bits are equal.
void expect_same_products(const Kernels& special, const Kernels& base) {
  for (const int planes : {1, 2}) {
    for (const int columns : {64, 512, 1216}) {
      const RandomMatrix matrix(80, columns, planes);
      for (const bool exact : {true, false}) {
        for (const bool scattered : {true, false}) {
          for (const int tokens : {1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 17, 300}) {
            if (tokens == 300 && columns > 64) continue;  // more than a panel of tiles: once is enough
            SCOPED_TRACE(::testing::Message() << planes << " planes, " << columns << " columns, " << tokens
                                              << " tokens, " << (exact ? "exact" : "fast"));
            const RandomRows rows(base, tokens, columns, exact, scattered);
            std::vector<float> found(static_cast<std::size_t>(tokens) * 80), expected(found.size());
            special.matmul(matrix.packed(), 0, 5, rows.data(), tokens, found.data(), 80);
            base.matmul(matrix.packed(), 0, 5, rows.data(), tokens, expected.data(), 80);
            ASSERT_EQ(found, expected);
          }
        }
      }
    }
  }
}

const Kernels* available(std::string_view name) {
  for (const Kernels* kernels : available_kernels()) {
    if (kernels->name == name) return kernels;
  }
  return nullptr;
}

TEST(SpecialProducts, AmxGivesTheBitsOfAvx512InTerms) {
  const Kernels* amx = available("amx");
  if (amx == nullptr) GTEST_SKIP() << "this machine has no AMX for bf16, or does not grant it";
  expect_same_products(*amx, *available("avx512-vnni"));
}

TEST(SpecialProducts, I8mmGivesTheBitsOfDotProducts) {
  const Kernels* i8mm = available("neon-i8mm");
  if (i8mm == nullptr) GTEST_SKIP() << "this machine has no NEON matrix products of 8-bit integers (i8mm)";
  expect_same_products(*i8mm, *available("neon-dotprod"));
}

}  // namespace
}  // namespace lily::cpu
