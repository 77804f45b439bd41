// What attention reads: norms, rotation and the cache, against the reference's formulas.
#include <cmath>

#include "backend/reference/norms.hpp"
#include "backend/reference/rope.hpp"
#include "base/bf16.hpp"
#include "gpu/device_test.hpp"
#include "gpu/rope_turns.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

constexpr std::size_t kDim = AttentionPrepare::dim;
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

LILY_FOR_ALL_DEVICES(Attention);

}  // namespace
}  // namespace lily::gpu
