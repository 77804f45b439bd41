// Gated DeltaNet over many tokens: its inputs, the rule token after token and in chunks, against the
// formulas.
#include <cmath>

#include "backend/reference/delta_net.hpp"
#include "backend/reference/norms.hpp"
#include "backend/reference/scalar.hpp"
#include "gpu/device_test.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

constexpr std::size_t kDim = DeltaScan::dim;
constexpr uint kTaps = DeltaRing::taps;
constexpr uint kRing = 3;

struct Shape {
  uint key_heads, value_heads, tokens;
};

class DeltaChunksTest : public DeviceTest {
 protected:
  // Inputs of the rule as DeltaInputs leaves them, on the device and on the host.
  struct Inputs {
    float *q, *k, *v, *beta, *log_decay;
    std::vector<float> q_host, k_host, v_host, beta_host, log_decay_host;
  };
  Inputs inputs(const Shape& shape, float magnitude, float largest_rate) {
    const auto unit_rows = [&](std::size_t rows, float length) {
      std::vector<float> x = uniforms(rows * kDim, -1, 1);
      // Rows point in similar directions, so that a chunk's triangular system is far from the identity.
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += i % 3 == 0 ? 0.8F : 0.0F;
      for (std::size_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (std::size_t i = 0; i < kDim; ++i) sum += x[row * kDim + i] * x[row * kDim + i];
        for (std::size_t i = 0; i < kDim; ++i) x[row * kDim + i] *= length / std::sqrt(sum);
      }
      return x;
    };
    Inputs in{};
    in.q_host = unit_rows(std::size_t{shape.tokens} * shape.key_heads, 1 / std::sqrt(128.0F));
    in.k_host = unit_rows(std::size_t{shape.tokens} * shape.key_heads, 1);
    in.v_host = uniforms(std::size_t{shape.tokens} * shape.value_heads * kDim, -magnitude, magnitude);
    in.beta_host = uniforms(std::size_t{shape.tokens} * shape.value_heads, 0, 1);
    in.log_decay_host = uniforms(in.beta_host.size(), -largest_rate, 0);
    in.q = upload(in.q_host);
    in.k = upload(in.k_host);
    in.v = upload(in.v_host);
    in.beta = upload(in.beta_host);
    in.log_decay = upload(in.log_decay_host);
    return in;
  }

  struct Result {
    std::vector<double> y;
    std::vector<float> state;
  };
  static Result expected(const Shape& shape, const Inputs& in, std::vector<float> state) {
    Result result{std::vector<double>(in.v_host.size()), std::move(state)};
    const auto wide = [](const std::vector<float>& x, std::size_t row) {
      const auto from = x.begin() + static_cast<std::ptrdiff_t>(row * kDim);
      return std::vector<double>(from, from + kDim);
    };
    for (std::size_t token = 0; token < shape.tokens; ++token) {
      for (std::size_t head = 0; head < shape.value_heads; ++head) {
        const std::size_t key_row = token * shape.key_heads + head / (shape.value_heads / shape.key_heads);
        const std::size_t row = token * shape.value_heads + head;
        reference::delta_step(std::span(result.state).subspan(head * kDim * kDim, kDim * kDim),
                              wide(in.q_host, key_row), wide(in.k_host, key_row), wide(in.v_host, row),
                              std::exp(static_cast<double>(in.log_decay_host[row])), in.beta_host[row],
                              std::span(result.y).subspan(row * kDim, kDim));
      }
    }
    return result;
  }

  template <class Values>
  static double largest(const Values& values) {
    double result = 0;
    for (const auto value : values) result = std::max(result, std::fabs(static_cast<double>(value)));
    return result;
  }

  void expect_result(float* y, const float* next_state, const Result& result, double tolerance) {
    const auto found = download(y, result.y.size());
    const auto state = download(next_state, result.state.size());
    const double y_bound = tolerance * largest(result.y), state_bound = tolerance * largest(result.state);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], result.y[i], y_bound) << i;
    }
    for (std::size_t i = 0; i < state.size(); ++i) {
      ASSERT_NEAR(state[i], result.state[i], state_bound) << i;
    }
  }

  // A ring whose second state is `state`; the step reads it and writes the third.
  float* ring_of(const std::vector<float>& state) {
    std::vector<float> ring(kRing * state.size(), NAN);
    std::copy(state.begin(), state.end(), ring.begin() + static_cast<std::ptrdiff_t>(state.size()));
    return upload(ring);
  }

  void run_chunks(const Shape& shape, const Inputs& in, float* states, float* y) {
    const uint chunks = divide_up(shape.tokens, DeltaChunks::chunk);
    const std::size_t rows = std::size_t{shape.value_heads} * chunks * DeltaChunks::chunk;
    auto *decay = room<float>(rows), *u = room<float>(rows * kDim);
    auto *w = room<half>(rows * kDim), *p = room<half>(rows * DeltaChunks::chunk);
    run(DeltaChunks{in.q, in.k, in.v, in.beta, in.log_decay, decay, u, w, p, shape.tokens, shape.key_heads,
                    shape.value_heads},
        {chunks, shape.value_heads});
    run(DeltaChunkScan{in.q, in.k, decay, u, w, p, upload(std::vector<uint>{1}), states, y, shape.tokens,
                       shape.key_heads, shape.value_heads, kRing},
        {DeltaChunkScan::parts, shape.value_heads});
  }
};

// Two calls: the second begins in the window that the first one left.
TEST_P(DeltaChunksTest, InputsFollowTheFormulas) {
  constexpr uint kKeyHeads = 2, kValueHeads = 4, kChannels = (2 * kKeyHeads + kValueHeads) * kDim;
  constexpr uint kBRow = kChannels + 16, kARow = kBRow + 16, kStride = kARow + 16;
  const std::vector<float> convolution = uniforms(std::size_t{kTaps} * kChannels, -0.7F, 0.7F);
  std::vector<float> rate;
  for (uint i = 0; i < kValueHeads; ++i) rate.push_back(-std::exp(uniform(-3, 1)));
  const std::vector<float> dt_bias = uniforms(kValueHeads, -3, 1);
  float* window = zeros<float>(std::size_t{DeltaRing::window_rows} * kChannels);
  std::vector<std::vector<float>> rows;
  for (const uint tokens : {9U, 2U, 17U}) {
    const std::vector<float> projection = uniforms(std::size_t{tokens} * kStride, -2, 2);
    const auto before = static_cast<uint>(rows.size());
    DeltaInputs a{};
    a.projection = upload(projection);
    a.convolution = upload(convolution);
    a.rate = upload(rate);
    a.dt_bias = upload(dt_bias);
    a.position = upload(std::vector<uint>{before});
    a.window = window;
    auto *q = room<float>(tokens * kKeyHeads * kDim), *k = room<float>(tokens * kKeyHeads * kDim);
    auto* v = room<float>(tokens * kValueHeads * kDim);
    auto *beta = room<float>(tokens * kValueHeads), *log_decay = room<float>(tokens * kValueHeads);
    a.q = q;
    a.k = k;
    a.v = v;
    a.beta = beta;
    a.log_decay = log_decay;
    a.tokens = tokens;
    a.key_heads = kKeyHeads;
    a.value_heads = kValueHeads;
    a.stride = kStride;
    a.b_row = kBRow;
    a.a_row = kARow;
    run(a, {2 * kKeyHeads + kValueHeads, divide_up(tokens, DeltaInputs::tokens_per_group)});
    run(DeltaWindow{a.projection, a.position, window, tokens, kChannels, kStride},
        {divide_up(kChannels, DeltaWindow::threads)});
    const auto q_found = download(q, tokens * kKeyHeads * kDim),
               k_found = download(k, tokens * kKeyHeads * kDim);
    const auto v_found = download(v, tokens * kValueHeads * kDim);
    const auto beta_found = download(beta, tokens * kValueHeads);
    const auto decay_found = download(log_decay, tokens * kValueHeads);
    for (uint token = 0; token < tokens; ++token) {
      const auto row = projection.begin() + static_cast<std::ptrdiff_t>(token) * kStride;
      rows.emplace_back(row, row + kChannels);
      const auto convolved = [&](std::size_t first) {
        std::vector<float> u;
        for (std::size_t channel = first; channel < first + kDim; ++channel) {
          double sum = 0;
          for (std::size_t back = 0; back < kTaps && back < rows.size(); ++back) {
            sum += static_cast<double>(convolution[(kTaps - 1 - back) * kChannels + channel]) *
                   rows[rows.size() - 1 - back][channel];
          }
          u.push_back(static_cast<float>(reference::silu(sum)));
        }
        return u;
      };
      for (std::size_t head = 0; head < kKeyHeads; ++head) {
        std::vector<double> query(kDim), key(kDim);
        reference::l2_normalize(convolved(head * kDim), 1 / std::sqrt(static_cast<double>(kDim)), query);
        reference::l2_normalize(convolved((kKeyHeads + head) * kDim), 1, key);
        for (std::size_t i = 0; i < kDim; ++i) {
          ASSERT_NEAR(q_found[(token * kKeyHeads + head) * kDim + i], query[i], tolerance::kRotation);
          ASSERT_NEAR(k_found[(token * kKeyHeads + head) * kDim + i], key[i], tolerance::kRotation);
        }
      }
      for (std::size_t head = 0; head < kValueHeads; ++head) {
        const auto value = convolved((2 * kKeyHeads + head) * kDim);
        for (std::size_t i = 0; i < kDim; ++i) {
          ASSERT_NEAR(v_found[(token * kValueHeads + head) * kDim + i], value[i], tolerance::kRotation * 4);
        }
        const auto at = static_cast<std::ptrdiff_t>(head);
        ASSERT_NEAR(beta_found[token * kValueHeads + head],
                    reference::sigmoid(static_cast<double>(row[kBRow + at])), tolerance::kSoftmaxWeight);
        const double rate_now =
            rate[head] * reference::softplus(static_cast<double>(row[kARow + at]) + dt_bias[head]);
        ASSERT_NEAR(decay_found[token * kValueHeads + head], rate_now,
                    tolerance::kSoftmaxWeight * (1 + std::fabs(rate_now)));
      }
    }
  }
}

TEST_P(DeltaChunksTest, ScanAndChunksFollowTheRule) {
  for (const Shape shape : {Shape{1, 2, 1}, Shape{2, 4, 15}, Shape{1, 1, 16}, Shape{2, 2, 64},
                            Shape{1, 2, 65}, Shape{1, 1, 150}}) {
    const Inputs in = inputs(shape, 2, 0.3F);
    const std::vector<float> state = uniforms(shape.value_heads * kDim * kDim, -1, 1);
    const Result result = expected(shape, in, state);
    float *y = room<float>(in.v_host.size()), *states = ring_of(state);
    run(DeltaScan{in.q, in.k, in.v, in.beta, in.log_decay, upload(std::vector<uint>{1}), states, y,
                  shape.tokens, shape.key_heads, shape.value_heads, kRing},
        {DeltaScan::parts, shape.value_heads});
    expect_result(y, states + 2 * state.size(), result, tolerance::kDeltaNet);

    y = room<float>(in.v_host.size());
    states = ring_of(state);
    run_chunks(shape, in, states, y);
    expect_result(y, states + 2 * state.size(), result, tolerance::kDeltaChunks);
  }
}

// The state starts at zero, decays almost at once or never, and values are of any size.
TEST_P(DeltaChunksTest, ChunksOfAllMagnitudes) {
  for (const float magnitude : {1e5F, 1e-6F}) {
    for (const float rate : {1e-6F, 40.0F}) {
      const Shape shape{1, 1, 100};
      const Inputs in = inputs(shape, magnitude, rate);
      const std::vector<float> state(kDim * kDim);
      const Result result = expected(shape, in, state);
      float *y = room<float>(in.v_host.size()), *states = ring_of(state);
      run_chunks(shape, in, states, y);
      expect_result(y, states + 2 * state.size(), result, tolerance::kDeltaChunks);
    }
  }
}

LILY_FOR_ALL_DEVICES(DeltaChunksTest);

}  // namespace
}  // namespace lily::gpu
