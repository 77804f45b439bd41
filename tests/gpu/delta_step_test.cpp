// Gated DeltaNet against the reference's formulas: convolution, normalization, gates, the delta rule.
#include <cmath>

#include "backend/reference/delta_net.hpp"
#include "backend/reference/norms.hpp"
#include "backend/reference/scalar.hpp"
#include "gpu/device_test.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

constexpr std::size_t kDim = DeltaStep::dim;
constexpr uint kTaps = DeltaRing::taps;
constexpr uint kRing = 4;

// One layer's weights and one sequence's state, on the host in the formulas' own order.
struct Layer {
  uint key_heads, value_heads;
  std::vector<float> convolution, rate, dt_bias;
  std::vector<std::vector<float>> inputs;  // convolution rows of all positions so far
  std::vector<float> state;

  std::size_t channels() const { return (2 * key_heads + value_heads) * kDim; }

  // u of one channel at a position.
  double convolved(std::size_t position, std::size_t channel) const {
    double sum = 0;
    for (std::size_t tap = 0; tap < kTaps; ++tap) {
      const std::size_t back = kTaps - 1 - tap;
      if (position >= back)
        sum +=
            static_cast<double>(convolution[tap * channels() + channel]) * inputs[position - back][channel];
    }
    return reference::silu(sum);
  }

  std::vector<double> normalized(std::size_t position, std::size_t first, double scale) const {
    std::vector<float> u;
    for (std::size_t i = 0; i < kDim; ++i) u.push_back(static_cast<float>(convolved(position, first + i)));
    std::vector<double> result(kDim);
    reference::l2_normalize(u, scale, result);
    return result;
  }

  // Advances the state by the newest position; returns y of all heads.
  std::vector<double> step(const std::vector<float>& b, const std::vector<float>& a) {
    const std::size_t position = inputs.size() - 1;
    std::vector<double> y;
    for (std::size_t head = 0; head < value_heads; ++head) {
      const std::size_t key_head = head / (value_heads / key_heads);
      const auto q = normalized(position, key_head * kDim, 1 / std::sqrt(static_cast<double>(kDim)));
      const auto k = normalized(position, (key_heads + key_head) * kDim, 1);
      std::vector<double> v, out(kDim);
      for (std::size_t i = 0; i < kDim; ++i)
        v.push_back(convolved(position, (2 * key_heads + head) * kDim + i));
      const double decay =
          std::exp(rate[head] * reference::softplus(static_cast<double>(a[head]) + dt_bias[head]));
      reference::delta_step(std::span(state).subspan(head * kDim * kDim, kDim * kDim), q, k, v, decay,
                            reference::sigmoid(b[head]), out);
      y.insert(y.end(), out.begin(), out.end());
    }
    return y;
  }
};

class DeltaStepTest : public DeviceTest {
 protected:
  Layer layer(uint key_heads, uint value_heads) {
    Layer l{key_heads, value_heads, {}, {}, {}, {}, {}};
    l.convolution = uniforms(kTaps * l.channels(), -0.7F, 0.7F);
    for (uint i = 0; i < value_heads; ++i) l.rate.push_back(-std::exp(uniform(-3, 1)));
    l.dt_bias = uniforms(value_heads, -3, 1);
    l.state.resize(value_heads * kDim * kDim);
    return l;
  }
};

TEST_P(DeltaStepTest, StepsFollowTheFormulas) {
  for (const auto& [key_heads, value_heads] : {std::pair(2U, 4U), std::pair(1U, 1U)}) {
    Layer l = layer(key_heads, value_heads);
    const auto channels = static_cast<uint>(l.channels());
    const uint b_row = channels + 16, a_row = b_row + 16, stride = a_row + 16;
    DeltaStep d{};
    d.convolution = upload(l.convolution);
    d.rate = upload(l.rate);
    d.dt_bias = upload(l.dt_bias);
    d.window = zeros<float>(DeltaRing::window_rows * l.channels());
    const std::size_t state_size = l.state.size(), count = std::size_t{value_heads} * kDim;
    float* states = zeros<float>(kRing * state_size);
    d.states = states;
    d.key_heads = key_heads;
    d.value_heads = value_heads;
    d.b_row = b_row;
    d.a_row = a_row;
    d.ring = kRing;
    d.next_blocks = 30;  // no multiple of the threadgroups' shares
    d.next = upload(std::vector<uchar>(std::size_t{d.next_blocks} * WeightBlock::bytes));
    for (uint position = 0; position < DeltaRing::window_rows + 3; ++position) {
      const std::vector<float> row = uniforms(stride, -2, 2);
      d.projection = upload(row);
      d.position = upload(std::vector<uint>{position});
      d.step = d.position;
      float* y = room<float>(count);
      d.y = y;
      run(d, {DeltaStep::parts, value_heads});
      const auto found = download(y, count);
      l.inputs.emplace_back(row.begin(), row.begin() + channels);
      const auto expected = l.step({row.begin() + b_row, row.begin() + b_row + value_heads},
                                   {row.begin() + a_row, row.begin() + a_row + value_heads});
      double largest = 0;
      for (const double value : expected) largest = std::max(largest, std::fabs(value));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(found[i], expected[i], tolerance::kDeltaNet * largest)
            << "position " << position << ", " << i;
      }
      const auto ring = download(states, kRing * state_size);
      for (std::size_t i = 0; i < state_size; ++i) {
        ASSERT_NEAR(ring[(position + 1) % kRing * state_size + i], l.state[i], tolerance::kDeltaNet) << i;
      }
    }
  }
}

// The rows of the last three tokens of a prompt, at their positions' places; the others stay.
TEST_P(DeltaStepTest, APromptLeavesItsLastRowsInTheWindow) {
  constexpr uint kChannels = 300, kStride = 320, kRows = DeltaRing::window_rows;
  for (const uint tokens : {1U, 2U, 9U}) {
    constexpr uint kPosition = 13;
    const std::vector<float> rows = uniforms(std::size_t{tokens} * kStride, -2, 2);
    std::vector<float> expected(std::size_t{kRows} * kChannels);
    float* window = zeros<float>(expected.size());
    run(DeltaWindow{upload(rows), upload(std::vector<uint>{kPosition}), window, tokens, kChannels, kStride},
        {divide_up(kChannels, DeltaWindow::threads)});
    for (uint token = tokens - std::min(tokens, 3U); token < tokens; ++token) {
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(token) * kStride, kChannels,
                  expected.begin() + static_cast<std::ptrdiff_t>((kPosition + token) % kRows) * kChannels);
    }
    EXPECT_EQ(download(window, expected.size()), expected) << tokens;
  }
}

// A ring of four states: three steps are undone by setting position and step back; the same step then gives
// the same bits.
TEST_P(DeltaStepTest, OvershootIsUndoneBySettingTheCountersBack) {
  Layer l = layer(1, 2);
  const auto channels = static_cast<uint>(l.channels());
  const uint stride = channels + 32;
  DeltaStep d{};
  d.convolution = upload(l.convolution);
  d.rate = upload(l.rate);
  d.dt_bias = upload(l.dt_bias);
  d.window = zeros<float>(DeltaRing::window_rows * l.channels());
  d.states = zeros<float>(kRing * l.state.size());
  d.key_heads = 1;
  d.value_heads = 2;
  d.b_row = channels;
  d.a_row = channels + 16;
  d.ring = kRing;
  std::vector<float*> rows;
  for (int i = 0; i < 7; ++i) rows.push_back(upload(uniforms(stride, -2, 2)));
  const auto step = [&](uint at, const float* row) {
    d.projection = row;
    d.position = upload(std::vector<uint>{at});
    d.step = d.position;
    float* y = room<float>(2 * kDim);
    d.y = y;
    run(d, {DeltaStep::parts, 2});
    return download(y, 2 * kDim);
  };
  for (uint i = 0; i < 4; ++i) step(i, rows[i]);
  const auto first = step(4, rows[4]);
  step(5, rows[5]);  // too far, twice
  step(6, rows[6]);
  EXPECT_NE(step(5, rows[6]), first);
  EXPECT_EQ(step(4, rows[4]), first);
}

LILY_FOR_ALL_DEVICES(DeltaStepTest);

}  // namespace
}  // namespace lily::gpu
