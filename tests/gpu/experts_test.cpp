// The mixture of experts against the whole formula in fp64.
#include <cmath>

#include "backend/reference/router.hpp"
#include "backend/reference/scalar.hpp"
#include "gpu/affine_matrix.hpp"
#include "gpu/device_test.hpp"

namespace lily::gpu {
namespace {

constexpr float kEps = 1e-6F;

struct Shape {
  uint hidden, experts, picks, expert_size, shared_size, tokens;
  int bits;
};

// A stack of experts below each other is one matrix of experts * rows rows, since rows are whole tiles.
class Experts : public DeviceTest {
 protected:
  in<uchar> upload_blocks(const AffineMatrix& matrix) {
    return reinterpret_cast<in<uchar>>(upload(matrix.packed()));
  }
  AffineMatrix matrix(uint rows, uint columns, int bits) {
    return {static_cast<int>(rows), {static_cast<int>(columns), bits, 64, bits / 4}, random_bits()};
  }
};

TEST_P(Experts, GateUpAndDownAgreeWithTheFormula) {
  for (const Shape shape :
       {Shape{128, 32, 8, 64, 64, 2, 4}, Shape{256, 12, 4, 64, 128, 1, 8}, Shape{2048, 16, 8, 512, 512, 1, 4},
        Shape{320, 256, 1, 320, 64, 3, 4}, Shape{2048, 12, 8, 512, 512, 1, 8}}) {
    const AffineMatrix gate = matrix(shape.experts * shape.expert_size, shape.hidden, shape.bits);
    const AffineMatrix up = matrix(shape.experts * shape.expert_size, shape.hidden, shape.bits);
    const AffineMatrix shared_gate = matrix(shape.shared_size, shape.hidden, shape.bits);
    const AffineMatrix shared_up = matrix(shape.shared_size, shape.hidden, shape.bits);
    const AffineMatrix down = matrix(shape.experts * shape.hidden, shape.expert_size, shape.bits);
    const AffineMatrix shared_down = matrix(shape.hidden, shape.shared_size, shape.bits);
    const uint gate_row = (shape.experts + 15) / 16 * 16, stride = gate_row + 16;
    const std::vector<float> x = uniforms(std::size_t{shape.tokens} * shape.hidden, -2, 2);
    const std::vector<float> factor = uniforms(shape.hidden, 0.5F, 1.5F);
    std::vector<float> logits = uniforms(std::size_t{shape.tokens} * stride, -3, 3);
    if (shape.tokens > 1) {  // equal ones
      for (float& logit : logits) logit = std::round(2 * logit) / 2;
    }
    const uint width = shape.picks * shape.expert_size + shape.shared_size;

    const AffineMatrix router = matrix(shape.experts + 1, shape.hidden, 8);
    RouterProject r{};
    r.router = upload_blocks(router);
    r.shared_gate = upload_blocks(shared_gate);
    r.shared_up = upload_blocks(shared_up);
    r.x = upload(x);
    r.factor = upload(factor);
    r.inputs = shape.hidden;
    r.planes = static_cast<uint>(shape.bits / 4);
    r.router_planes = 2;
    r.tiles = static_cast<uint>(router.tiles());
    r.activation_stride = width;
    r.eps = kEps;
    float* router_logits = room<float>(std::size_t{shape.tokens} * r.tiles * 16);
    float* activations = room<float>(std::size_t{shape.tokens} * width);
    r.logits = router_logits;
    r.activations = activations + std::size_t{shape.picks} * shape.expert_size;
    run(r, {r.tiles + shape.shared_size / 16, shape.tokens});

    ExpertGateUp g{};
    g.gate = upload_blocks(gate);
    g.up = upload_blocks(up);
    g.x = r.x;
    g.factor = r.factor;
    g.logits = upload(logits);
    g.activations = activations;
    g.inputs = shape.hidden;
    g.experts = shape.experts;
    g.picks = shape.picks;
    g.expert_size = shape.expert_size;
    g.planes = static_cast<uint>(shape.bits / 4);
    const uint pairs = shape.hidden == 2048 && shape.bits == 8 ? 1 : 2;
    g.pairs_per_group = pairs;
    g.logits_stride = stride;
    g.activation_stride = width;
    g.eps = kEps;
    g.groups = divide_up(shape.picks * shape.expert_size / 16, pairs);
    g.next = g.gate;
    g.next_blocks = static_cast<uint>(gate.packed().size() / WeightBlock::bytes);
    run(g, {g.groups, shape.tokens});

    const std::vector<float> before = uniforms(x.size(), -5, 5);
    float* residual = upload(before);
    run(ExpertDown{upload_blocks(down), upload_blocks(shared_down), activations, g.logits, residual,
                   shape.hidden, g.planes, shape.experts, shape.picks, shape.expert_size, shape.shared_size,
                   gate_row, stride},
        {shape.hidden / 16, shape.tokens});
    const auto found_logits = download(router_logits, std::size_t{shape.tokens} * r.tiles * 16);
    const auto found_activations = download(activations, std::size_t{shape.tokens} * width);
    const auto found = download(residual, before.size());

    for (uint token = 0; token < shape.tokens; ++token) {
      const auto row = std::span(x).subspan(token * shape.hidden, shape.hidden);
      double squares = 0;
      for (const float value : row) squares += static_cast<double>(value) * value;
      std::vector<double> h;
      for (uint i = 0; i < shape.hidden; ++i) {
        h.push_back(row[i] / std::sqrt(squares / shape.hidden + kEps) * factor[i]);
      }
      for (uint logit = 0; logit <= shape.experts; ++logit) {
        const auto product = router.multiply(static_cast<int>(logit), h);
        ASSERT_NEAR(found_logits[token * r.tiles * 16 + logit], product.value, product.bound) << logit;
      }
      const auto token_logits = std::span(logits).subspan(token * stride, stride);
      const auto choices =
          reference::choose_experts(token_logits.subspan(0, shape.experts), static_cast<int>(shape.picks));
      const auto activation = [&](const AffineMatrix& g_matrix, const AffineMatrix& u_matrix, uint index) {
        const auto gate_product = g_matrix.multiply(static_cast<int>(index), h);
        const auto up_product = u_matrix.multiply(static_cast<int>(index), h);
        const double value = reference::silu(gate_product.value);
        // silu's slope is at most 1.1.
        return AffineMatrix::Product{value * up_product.value,
                                     std::fabs(value) * up_product.bound +
                                         1.1 * gate_product.bound * std::fabs(up_product.value) +
                                         1e-6 * std::fabs(value * up_product.value) + 1e-6};
      };
      for (uint i = 0; i < width; ++i) {
        const uint slot = std::min(i / shape.expert_size, shape.picks), inner = i - slot * shape.expert_size;
        const auto expected =
            slot < shape.picks
                ? activation(gate, up, static_cast<uint>(choices[slot].expert) * shape.expert_size + inner)
                : activation(shared_gate, shared_up, inner);
        ASSERT_NEAR(found_activations[token * width + i], expected.value, expected.bound)
            << token << " " << i;
      }
      // Down is judged on the activations that it read.
      for (uint i = 0; i < shape.hidden; ++i) {
        double sum = 0, bound = 1e-6 * std::fabs(before[token * shape.hidden + i]);
        for (uint slot = 0; slot <= shape.picks; ++slot) {
          const bool chosen = slot < shape.picks;
          const uint size = chosen ? shape.expert_size : shape.shared_size;
          const double weight = chosen ? choices[slot].weight : reference::sigmoid(token_logits[gate_row]);
          std::vector<double> v;
          for (uint j = 0; j < size; ++j) {
            v.push_back(weight * found_activations[token * width + slot * shape.expert_size + j]);
          }
          const AffineMatrix& m = chosen ? down : shared_down;
          const auto product = m.multiply(
              static_cast<int>((chosen ? static_cast<uint>(choices[slot].expert) * shape.hidden : 0) + i), v);
          sum += product.value;
          bound += product.bound;
        }
        ASSERT_NEAR(found[token * shape.hidden + i], before[token * shape.hidden + i] + sum, bound)
            << token << " " << i;
      }
    }
  }
}

// A logit that is no number must not lead to an expert outside the matrices.
TEST_P(Experts, NanLogitsGiveNanAndTouchNothingElse) {
  std::vector<float> logits(12, NAN);
  TopExperts a{};
  a.logits = upload(logits);
  uint* expert = room<uint>(4);
  float* weight = room<float>(4);
  a.expert = expert;
  a.weight = weight;
  a.tokens = 1;
  a.experts = 12;
  a.picks = 4;
  a.stride = 12;
  run(a, {1});
  for (const uint chosen : download(expert, 4)) EXPECT_LT(chosen, 12U);
  for (const float value : download(weight, 4)) EXPECT_TRUE(std::isnan(value));
}

// Whatever the router gives, a threadgroup gets the weights that it waits for.
TEST_P(Experts, GateUpEndsForLogitsThatAreNoNumbers) {
  constexpr uint kExperts = 16, kPicks = 8, kSize = 32, kHidden = 64;
  std::vector<float> logits(kExperts, NAN);
  logits[3] = -NAN;
  logits[5] = INFINITY;
  ExpertGateUp g{};
  g.gate = upload_blocks(matrix(kExperts * kSize, kHidden, 4));
  g.up = upload_blocks(matrix(kExperts * kSize, kHidden, 4));
  g.x = upload(uniforms(kHidden, -2, 2));
  g.factor = upload(uniforms(kHidden, 0.5F, 1.5F));
  g.logits = upload(logits);
  float* activations = room<float>(kPicks * kSize);
  g.activations = activations;
  g.inputs = kHidden;
  g.planes = 1;
  g.experts = kExperts;
  g.picks = kPicks;
  g.expert_size = kSize;
  g.pairs_per_group = 2;
  g.logits_stride = kExperts;
  g.activation_stride = kPicks * kSize;
  g.eps = kEps;
  run(g, {kPicks * kSize / 32});
  for (const float value : download(activations, kPicks * kSize)) EXPECT_TRUE(std::isfinite(value));
}

LILY_FOR_ALL_DEVICES(Experts);

}  // namespace
}  // namespace lily::gpu
