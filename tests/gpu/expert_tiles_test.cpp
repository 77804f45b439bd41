// The mixture of experts for many tokens: tiles of experts, products per expert, the sum per token.
#include <cmath>

#include "backend/reference/scalar.hpp"
#include "gpu/affine_matrix.hpp"
#include "gpu/device_test.hpp"
#include "gpu/half_rows.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

class ExpertTilesTest : public DeviceTest {
 protected:
  struct Routing {
    std::vector<uint> expert;  // [tokens][picks]
    uint *order, *offset, *tile_expert, *tile_first;
    uint max_tiles;
  };

  // Sorts the assignments `expert` and cuts them into tiles.
  Routing route(std::vector<uint> expert) {
    const auto n = static_cast<uint>(expert.size());
    Routing r{std::move(expert), room<uint>(n), room<uint>(257),
              nullptr,           nullptr,       256 + n / Multiply::tokens};
    r.tile_expert = room<uint>(r.max_tiles);
    r.tile_first = room<uint>(r.max_tiles);
    uint* count = zeros<uint>(256);
    const uint* list = upload(r.expert);
    run(CountExperts{list, reinterpret_cast<atomic_uint*>(count), n}, {divide_up(n, 256)});
    run(ExpertOffsets{count, r.offset}, {1});
    run(SortByExpert{list, r.offset, r.order, n},
        {SortByExpert::max_experts / SortByExpert::experts_per_group});
    run(ExpertTiles{r.offset, r.tile_expert, r.tile_first, r.max_tiles}, {1});
    return r;
  }
  // `picks` different experts per token, expert 3 in all of them.
  std::vector<uint> choices(uint tokens, uint picks, uint experts) {
    std::vector<uint> chosen;
    for (uint token = 0; token < tokens; ++token) {
      const uint start = random_bits() % experts;
      for (uint pick = 0; pick < picks; ++pick) {
        const uint expert = (start + pick * 5) % experts;
        chosen.push_back(pick == 0 ? 3 : expert == 3 ? (start + picks * 5) % experts : expert);
      }
    }
    return chosen;
  }
  in<uchar> upload_blocks(const AffineMatrix& matrix) {
    return reinterpret_cast<in<uchar>>(upload(matrix.packed()));
  }
};

TEST_P(ExpertTilesTest, TilesCoverEveryAssignmentOnce) {
  for (const uint n : {1U, 64U, 65U, 1000U, 4096U}) {
    std::vector<uint> expert(n);
    for (uint& e : expert) e = random_bits() % 100 < 50 ? 7 : random_bits() % 256;
    const Routing r = route(expert);
    const auto tile_expert = download(r.tile_expert, r.max_tiles),
               tile_first = download(r.tile_first, r.max_tiles);
    const auto offset = download(r.offset, 257);
    std::vector<uint> covered(n);
    for (uint tile = 0; tile < r.max_tiles; ++tile) {
      if (tile_expert[tile] == ~0U) continue;
      ASSERT_LT(tile_expert[tile], 256U);
      const uint end = std::min(offset[tile_expert[tile] + 1], tile_first[tile] + Multiply::tokens);
      ASSERT_GE(tile_first[tile], offset[tile_expert[tile]]);
      ASSERT_LT(tile_first[tile], end);
      for (uint i = tile_first[tile]; i < end; ++i) ++covered[i];
    }
    EXPECT_EQ(covered, std::vector<uint>(n, 1));
  }
}

struct Shape {
  uint hidden, experts, picks, expert_size, tokens;
};

TEST_P(ExpertTilesTest, ProductsAndSumsAgreeWithTheFormula) {
  for (const Shape shape : {Shape{128, 12, 4, 64, 70}, Shape{192, 32, 8, 128, 3}, Shape{64, 256, 1, 64, 5}}) {
    const AffineMatrix gate(static_cast<int>(shape.experts * shape.expert_size),
                            {static_cast<int>(shape.hidden), 4, 64}, random_bits());
    const AffineMatrix up(gate.rows(), gate.format(), random_bits());
    const AffineMatrix down(static_cast<int>(shape.experts * shape.hidden),
                            {static_cast<int>(shape.expert_size), 4, 64}, random_bits());
    const uint n = shape.tokens * shape.picks, tiles = shape.expert_size / 16;
    const Routing r = route(choices(shape.tokens, shape.picks, shape.experts));
    const auto order = download(r.order, n);

    half* x = room<half>(std::size_t{shape.tokens} * shape.hidden);
    float* scale = room<float>(shape.tokens);
    run(HalfRows{upload(uniforms(std::size_t{shape.tokens} * shape.hidden, -3, 3)), x, scale, shape.tokens,
                 shape.hidden},
        {divide_up(shape.tokens, 4)});
    float* activations = room<float>(std::size_t{n} * shape.expert_size);
    run(ExpertTileGateUp{upload_blocks(gate), upload_blocks(up), x, scale, r.order, r.offset, r.tile_expert,
                         r.tile_first, activations, shape.hidden, tiles, shape.picks, gate.guard(),
                         up.guard()},
        {divide_up(tiles, 4), r.max_tiles});
    const auto x_found = download(x, std::size_t{shape.tokens} * shape.hidden);
    const auto scale_found = download(scale, shape.tokens);
    const auto activation = download(activations, std::size_t{n} * shape.expert_size);
    for (uint i = 0; i < n; ++i) {
      const uint token = order[i] / shape.picks, expert = r.expert[order[i]];
      auto row = in_order(std::span(x_found).subspan(std::size_t{token} * shape.hidden, shape.hidden));
      for (double& value : row) value *= static_cast<double>(scale_found[token]);
      for (uint j = 0; j < shape.expert_size; ++j) {
        const auto index = static_cast<int>(expert * shape.expert_size + j);
        const auto g = gate.multiply_halves(index, row), u = up.multiply_halves(index, row);
        const double value = reference::silu(g.value);
        ASSERT_NEAR(activation[std::size_t{i} * shape.expert_size + j], value * u.value,
                    std::fabs(value) * u.bound + 1.1 * g.bound * (std::fabs(u.value) + u.bound))
            << "assignment " << order[i] << ", " << j;
      }
    }

    half* halves = room<half>(activation.size());
    float *half_scale = room<float>(n), *y_scale = room<float>(n);
    run(HalfRows{activations, halves, half_scale, n, shape.expert_size}, {divide_up(n, 4)});
    half* y = room<half>(std::size_t{n} * shape.hidden);
    run(ExpertTileDown{upload_blocks(down), halves, half_scale, r.order, r.offset, r.tile_expert,
                       r.tile_first, y, y_scale, shape.expert_size, shape.hidden / 16, down.guard()},
        {divide_up(shape.hidden / 16, Multiply::tiles), r.max_tiles});
    const auto halves_found = download(halves, activation.size());
    const auto half_scale_found = download(half_scale, n), y_scale_found = download(y_scale, n);
    const auto y_found = download(y, std::size_t{n} * shape.hidden);
    for (uint i = 0; i < n; ++i) {
      const uint assignment = order[i], expert = r.expert[assignment];
      ASSERT_EQ(y_scale_found[assignment], half_scale_found[i]);
      const auto row =
          in_order(std::span(halves_found).subspan(std::size_t{i} * shape.expert_size, shape.expert_size));
      for (uint j = 0; j < shape.hidden; ++j) {
        const auto product = down.multiply_halves(static_cast<int>(expert * shape.hidden + j), row);
        ASSERT_NEAR(static_cast<double>(y_found[std::size_t{assignment} * shape.hidden + j]), product.value,
                    product.bound + tolerance::kHalf * std::fabs(product.value) + tolerance::kSubnormalHalf)
            << "assignment " << assignment << ", " << j;
      }
    }

    const uint stride = shape.experts + 4;
    const std::vector<float> weight = uniforms(n, 0, 1),
                             logits = uniforms(std::size_t{shape.tokens} * stride, -3, 3);
    const std::vector<float> shared_y = uniforms(std::size_t{shape.tokens} * shape.hidden, -2, 2);
    const std::vector<float> before = uniforms(shared_y.size(), -5, 5);
    float* residual = upload(before);
    run(ExpertCombine{y, y_scale, upload(weight), upload(logits), upload(shared_y), residual, shape.hidden,
                      shape.experts, shape.picks, stride},
        {1, shape.tokens});
    const auto found = download(residual, before.size());
    for (std::size_t token = 0; token < shape.tokens; ++token) {
      for (std::size_t j = 0; j < shape.hidden; ++j) {
        const std::size_t at = token * shape.hidden + j;
        double sum = reference::sigmoid(logits[token * stride + shape.experts]) * shared_y[at] + before[at];
        double magnitude = std::fabs(sum) + 5;
        for (std::size_t pick = 0; pick < shape.picks; ++pick) {
          const std::size_t slot = token * shape.picks + pick;
          const double part = static_cast<double>(weight[slot]) * static_cast<double>(y_scale_found[slot]) *
                              static_cast<double>(y_found[slot * shape.hidden + j]);
          sum += part;
          magnitude += std::fabs(part);
        }
        ASSERT_NEAR(found[at], sum, tolerance::kSum * magnitude) << token << " " << j;
      }
    }
  }
}

LILY_FOR_ALL_DEVICES(ExpertTilesTest);

}  // namespace
}  // namespace lily::gpu
