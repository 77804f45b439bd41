// Products on matrix tiles against fp64 sums over the decoded weights and the halves that the kernels read.
#include <cmath>

#include "backend/reference/scalar.hpp"
#include "gpu/affine_matrix.hpp"
#include "gpu/device_test.hpp"
#include "gpu/half_rows.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

struct Shape {
  int rows;
  AffineFormat format;
  uint tokens;
  float magnitude = 1;
};

// 64 tokens and 8 row tiles are one threadgroup; magnitudes beyond what a half holds need the guard.
constexpr Shape kShapes[] = {
    {16, {64, 4, 64}, 1},    {128, {128, 4, 64}, 17},      {144, {256, 4, 64}, 64},
    {40, {320, 4, 64}, 65},  {48, {256, 8, 64, 2}, 33},    {96, {128, 4, 128}, 2},
    {64, {512, 4, 128}, 32}, {32, {128, 4, 64}, 3, 1e-6F}, {32, {128, 8, 64, 2}, 3, 1e5F},
};

class MultiplyTest : public DeviceTest {
 protected:
  in<uchar> upload_blocks(const AffineMatrix& matrix) {
    return reinterpret_cast<in<uchar>>(upload(matrix.packed()));
  }

  // Rows of halves on the device with their scales, and what they are worth.
  struct TokenRows {
    half* halves;
    float* scales;
    std::vector<std::vector<double>> values;
  };
  TokenRows token_rows(uint tokens, uint inputs) {
    TokenRows rows{room<half>(std::size_t{tokens} * inputs), room<float>(tokens), {}};
    run(HalfRows{upload(uniforms(std::size_t{tokens} * inputs, -3, 3)), rows.halves, rows.scales, tokens,
                 inputs},
        {divide_up(tokens, 4)});
    const auto halves = download(rows.halves, std::size_t{tokens} * inputs);
    const auto scales = download(rows.scales, tokens);
    for (std::size_t token = 0; token < tokens; ++token) {
      rows.values.push_back(in_order(std::span(halves).subspan(token * inputs, inputs)));
      for (double& value : rows.values.back()) value *= static_cast<double>(scales[token]);
    }
    return rows;
  }

  static void expect_products(const std::vector<float>& found, std::size_t stride, const AffineMatrix& matrix,
                              const TokenRows& x, std::span<const float> before) {
    for (std::size_t token = 0; token < x.values.size(); ++token) {
      for (int row = 0; row < matrix.rows(); ++row) {
        const auto product = matrix.multiply_halves(row, x.values[token]);
        const std::size_t at = token * stride + static_cast<std::size_t>(row);
        const double start = before.empty() ? 0 : before[at];
        ASSERT_NEAR(found[at], start + product.value, product.bound + tolerance::kSum * std::fabs(start))
            << matrix.rows() << " x " << matrix.format().columns << ", token " << token << ", row " << row;
      }
    }
  }
};

TEST_P(MultiplyTest, TileProjectAgreesWithTheFormula) {
  for (const Shape& shape : kShapes) {
    const AffineMatrix matrix(shape.rows, shape.format, random_bits(), shape.magnitude);
    const auto inputs = static_cast<uint>(shape.format.columns), tiles = static_cast<uint>(matrix.tiles());
    const TokenRows x = token_rows(shape.tokens, inputs);
    float* y = room<float>(std::size_t{shape.tokens} * tiles * 16);
    run(TileProject{upload_blocks(matrix), x.halves, x.scales, y, shape.tokens, inputs,
                    static_cast<uint>(shape.format.planes), tiles, tiles * 16, matrix.guard()},
        {divide_up(tiles, Multiply::tiles), divide_up(shape.tokens, Multiply::tokens)});
    expect_products(download(y, std::size_t{shape.tokens} * tiles * 16), tiles * 16, matrix, x, {});
  }
}

TEST_P(MultiplyTest, TileAddProjectAddsToTheResidual) {
  for (const Shape& shape : kShapes) {
    if (shape.rows % 16 != 0) continue;
    const AffineMatrix matrix(shape.rows, shape.format, random_bits(), shape.magnitude);
    const auto inputs = static_cast<uint>(shape.format.columns), tiles = static_cast<uint>(matrix.tiles());
    const TokenRows x = token_rows(shape.tokens, inputs);
    const std::vector<float> before = uniforms(std::size_t{shape.tokens} * tiles * 16, -5, 5);
    float* residual = upload(before);
    run(TileAddProject{upload_blocks(matrix), x.halves, x.scales, residual, shape.tokens, inputs,
                       static_cast<uint>(shape.format.planes), tiles, matrix.guard()},
        {divide_up(tiles, Multiply::tiles), divide_up(shape.tokens, Multiply::tokens)});
    expect_products(download(residual, before.size()), tiles * 16, matrix, x, before);
  }
}

TEST_P(MultiplyTest, SmallProjectAgreesWithTheFormula) {
  for (const Shape& shape : kShapes) {
    if (shape.tokens > SmallProject::max_tokens) continue;
    const AffineMatrix matrix(shape.rows, shape.format, random_bits(), shape.magnitude);
    const auto inputs = static_cast<uint>(shape.format.columns), tiles = static_cast<uint>(matrix.tiles());
    const TokenRows x = token_rows(shape.tokens, inputs);
    const std::vector<float> before = uniforms(std::size_t{shape.tokens} * tiles * 16, -5, 5);
    float *y = room<float>(before.size()), *sum = upload(before);
    SmallProject a{upload_blocks(matrix),
                   x.halves,
                   x.scales,
                   y,
                   shape.tokens,
                   inputs,
                   static_cast<uint>(shape.format.planes),
                   tiles,
                   tiles * 16,
                   0,
                   matrix.guard()};
    run(a, {divide_up(tiles, 2)});
    expect_products(download(y, before.size()), tiles * 16, matrix, x, {});
    a.y = sum;
    a.add = 1;
    run(a, {divide_up(tiles, 2)});
    expect_products(download(sum, before.size()), tiles * 16, matrix, x, before);
  }
}

TEST_P(MultiplyTest, TileGateUpAgreesWithTheFormula) {
  for (const auto& [rows, tokens] : {std::pair(16, 1U), std::pair(80, 65U)}) {
    constexpr uint kInputs = 192;
    const AffineMatrix gate(rows, {kInputs, 4, 64}, random_bits()),
        up(rows, {kInputs, 4, 64}, random_bits(), 40);
    const auto tiles = static_cast<uint>(gate.tiles());
    const TokenRows x = token_rows(tokens, kInputs);
    float* y = room<float>(std::size_t{tokens} * tiles * 16);
    run(TileGateUp{upload_blocks(gate), upload_blocks(up), x.halves, x.scales, y, tokens, kInputs, tiles,
                   gate.guard(), up.guard()},
        {divide_up(tiles, 4), divide_up(tokens, Multiply::tokens)});
    const auto found = download(y, std::size_t{tokens} * tiles * 16);
    for (std::size_t token = 0; token < tokens; ++token) {
      for (int row = 0; row < rows; ++row) {
        const auto g = gate.multiply_halves(row, x.values[token]),
                   u = up.multiply_halves(row, x.values[token]);
        const double value = reference::silu(g.value);
        // silu's slope is at most 1.1.
        ASSERT_NEAR(found[token * tiles * 16 + static_cast<std::size_t>(row)], value * u.value,
                    std::fabs(value) * u.bound + 1.1 * g.bound * (std::fabs(u.value) + u.bound))
            << token << " " << row;
      }
    }
  }
}

LILY_FOR_ALL_DEVICES(MultiplyTest);

}  // namespace
}  // namespace lily::gpu
