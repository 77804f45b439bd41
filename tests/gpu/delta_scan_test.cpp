// The gated delta rule against the reference's step.
#include <cmath>

#include "backend/reference/delta_net.hpp"
#include "backend/reference/norms.hpp"
#include "gpu/device_test.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

constexpr std::size_t kDim = DeltaScan::dim;

class DeltaScanTest : public DeviceTest {
 protected:
  // Unit rows times `scale`, as the model's normalized queries and keys.
  std::vector<float> unit_rows(std::size_t rows, double scale) {
    std::vector<float> values = uniforms(rows * kDim, -1, 1);
    std::vector<double> row(kDim);
    for (std::size_t i = 0; i < rows; ++i) {
      reference::l2_normalize(std::span(values).subspan(i * kDim, kDim), scale, row);
      for (std::size_t j = 0; j < kDim; ++j) values[i * kDim + j] = static_cast<float>(row[j]);
    }
    return values;
  }
};

std::vector<double> widened(std::span<const float> values) { return {values.begin(), values.end()}; }

TEST_P(DeltaScanTest, FollowsTheReferenceStepByStep) {
  constexpr std::size_t kTokens = 7, kKeyHeads = 2, kValueHeads = 4;
  const std::vector<float> q = unit_rows(kTokens * kKeyHeads, 1 / std::sqrt(128.0));
  const std::vector<float> k = unit_rows(kTokens * kKeyHeads, 1);
  const std::vector<float> v = uniforms(kTokens * kValueHeads * kDim, -1, 1);
  const std::vector<float> decay = uniforms(kTokens * kValueHeads, 0.8F, 1);
  const std::vector<float> beta = uniforms(kTokens * kValueHeads, 0, 1);
  std::vector<float> state = uniforms(kValueHeads * kDim * kDim, -1, 1);

  DeltaScan a{};
  a.q = upload(q);
  a.k = upload(k);
  a.v = upload(v);
  a.decay = upload(decay);
  a.beta = upload(beta);
  float* device_state = upload(state);
  a.state = device_state;
  a.state_out = device_state;
  float* y = room<float>(v.size());
  a.y = y;
  a.tokens = kTokens;
  a.key_heads = kKeyHeads;
  a.value_heads = kValueHeads;
  run(a, {kDim / DeltaScan::rows_per_group, kValueHeads});
  const auto found = download(y, v.size());
  const auto found_state = download(device_state, state.size());

  std::vector<double> expected(kDim);
  for (std::size_t token = 0; token < kTokens; ++token) {
    for (std::size_t head = 0; head < kValueHeads; ++head) {
      const std::size_t key = (token * kKeyHeads + head / 2) * kDim, value = token * kValueHeads + head;
      reference::delta_step(
          std::span(state).subspan(head * kDim * kDim, kDim * kDim), widened(std::span(q).subspan(key, kDim)),
          widened(std::span(k).subspan(key, kDim)), widened(std::span(v).subspan(value * kDim, kDim)),
          decay[value], beta[value], expected);
      for (std::size_t i = 0; i < kDim; ++i) {
        ASSERT_NEAR(found[value * kDim + i], expected[i], tolerance::kDeltaNet) << token << " " << head;
      }
    }
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    ASSERT_NEAR(found_state[i], state[i], tolerance::kDeltaNet) << i;
  }
}

LILY_FOR_ALL_DEVICES(DeltaScanTest);

}  // namespace
}  // namespace lily::gpu
