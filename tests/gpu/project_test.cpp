// Products with weight blocks against fp64 sums over the decoded weights.
#include <cmath>

#include "backend/reference/norms.hpp"
#include "backend/reference/scalar.hpp"
#include "gpu/affine_matrix.hpp"
#include "gpu/device_test.hpp"

namespace lily::gpu {
namespace {

constexpr float kEps = 1e-6F;

class Project : public DeviceTest {
 protected:
  in<uchar> upload_blocks(const AffineMatrix& matrix) {
    return reinterpret_cast<in<uchar>>(upload(matrix.packed()));
  }

  static std::vector<double> normed(std::span<const float> x, std::span<const float> factor) {
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value) * value;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + kEps);
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * factor[i];
    return y;
  }

  // Rows of different sizes, so that each needs its own step.
  std::vector<float> rows(std::size_t tokens, std::size_t width) {
    std::vector<float> x = uniforms(tokens * width, -2, 2);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % 97 == 5) x[i] *= 30;
    }
    return x;
  }
};

struct Shape {
  int rows;
  AffineFormat format;
  uint tokens, groups;
};

constexpr Shape kShapes[] = {
    {16, {64, 4, 64}, 1, 1},      {40, {128, 4, 64}, 3, 1},     {100, {256, 4, 64}, 2, 2},
    {33, {320, 4, 64}, 1, 3},     {257, {256, 8, 64, 2}, 2, 6}, {96, {2048, 4, 64}, 1, 1},
    {33, {2048, 8, 64, 2}, 1, 1}, {112, {2048, 4, 64}, 1, 2},   {48, {4096, 4, 64}, 1, 1},
    {64, {256, 4, 128}, 1, 4},    {32, {128, 4, 64, 2}, 1, 1},
};

TEST_P(Project, NormProjectAgreesWithTheFormula) {
  for (const Shape& shape : kShapes) {
    const AffineMatrix matrix(shape.rows, shape.format, random_bits());
    const auto inputs = static_cast<std::size_t>(shape.format.columns);
    const std::vector<float> x = rows(shape.tokens, inputs), factor = uniforms(inputs, 0.5F, 1.5F);
    NormProject a{};
    a.weights = upload_blocks(matrix);
    a.x = upload(x);
    a.factor = upload(factor);
    a.inputs = static_cast<uint>(inputs);
    a.planes = static_cast<uint>(shape.format.planes);
    a.tiles = static_cast<uint>(matrix.tiles());
    a.groups = shape.groups;
    a.each = a.tiles / a.groups;
    a.y_stride = a.tiles * 16;
    a.eps = kEps;
    float* y = room<float>(std::size_t{shape.tokens} * a.y_stride);
    a.y = y;
    run(a, {a.groups, shape.tokens});
    const auto found = download(y, std::size_t{shape.tokens} * a.y_stride);
    for (uint token = 0; token < shape.tokens; ++token) {
      const auto h = normed(std::span(x).subspan(token * inputs, inputs), factor);
      for (int row = 0; row < shape.rows; ++row) {
        const auto product = matrix.multiply(row, h);
        ASSERT_NEAR(found[token * a.y_stride + static_cast<uint>(row)], product.value, product.bound)
            << shape.rows << " x " << inputs << ", row " << row;
      }
      for (uint row = static_cast<uint>(shape.rows); row < a.y_stride; ++row) {
        ASSERT_EQ(found[token * a.y_stride + row], 0) << row;  // padding
      }
    }
  }
}

TEST_P(Project, HeadProjectAgreesWithTheFormula) {
  for (const Shape& shape : kShapes) {
    const AffineMatrix matrix(shape.rows, shape.format, random_bits());
    const auto inputs = static_cast<std::size_t>(shape.format.columns);
    const std::vector<float> x = rows(shape.tokens, inputs), factor = uniforms(inputs, 0.5F, 1.5F);
    HeadProject a{};
    a.weights = upload_blocks(matrix);
    a.x = upload(x);
    a.factor = upload(factor);
    a.inputs = static_cast<uint>(inputs);
    a.planes = static_cast<uint>(shape.format.planes);
    a.rows = static_cast<uint>(shape.rows);
    a.groups = 2;
    a.eps = kEps;
    float* y = room<float>(std::size_t{shape.tokens} * a.rows);
    a.y = y;
    run(a, {a.groups, shape.tokens});
    const auto found = download(y, std::size_t{shape.tokens} * a.rows);
    for (uint token = 0; token < shape.tokens; ++token) {
      const auto h = normed(std::span(x).subspan(token * inputs, inputs), factor);
      for (int row = 0; row < shape.rows; ++row) {
        const auto product = matrix.multiply(row, h);
        ASSERT_NEAR(found[token * a.rows + static_cast<uint>(row)], product.value, product.bound) << row;
      }
    }
  }
}

TEST_P(Project, AddProjectAddsToTheResidual) {
  for (const Shape& shape : kShapes) {
    if (shape.rows % 16 != 0) continue;
    const AffineMatrix matrix(shape.rows, shape.format, random_bits());
    const auto inputs = static_cast<std::size_t>(shape.format.columns);
    const std::vector<float> x = rows(shape.tokens, inputs);
    AddProject a{};
    a.weights = upload_blocks(matrix);
    a.x = upload(x);
    a.inputs = static_cast<uint>(inputs);
    a.planes = static_cast<uint>(shape.format.planes);
    a.tiles = static_cast<uint>(matrix.tiles());
    a.groups = (a.tiles + AddProject::max_tiles - 1) / AddProject::max_tiles;
    a.each = a.tiles / a.groups;
    a.rows = static_cast<uint>(shape.rows);
    const std::vector<float> before = uniforms(std::size_t{shape.tokens} * a.rows, -5, 5);
    float* residual = upload(before);
    a.residual = residual;
    run(a, {a.groups, shape.tokens});
    const auto found = download(residual, before.size());
    for (uint token = 0; token < shape.tokens; ++token) {
      const auto row_x = std::span(x).subspan(token * inputs, inputs);
      const std::vector<double> wide(row_x.begin(), row_x.end());
      for (uint row = 0; row < a.rows; ++row) {
        const auto product = matrix.multiply(static_cast<int>(row), wide);
        const std::size_t at = token * a.rows + row;
        ASSERT_NEAR(found[at], before[at] + product.value, product.bound + 5e-7) << row;
      }
    }
  }
}

TEST_P(Project, AddGatedProjectAgreesWithTheFormula) {
  for (const uint heads : {2U, 8U, 32U}) {
    constexpr uint kTokens = 2, kRows = 48;
    const uint inputs = heads * AddGatedProject::head, stride = inputs + 64;
    const AffineMatrix matrix(kRows, {static_cast<int>(inputs), 4, 64}, random_bits());
    const std::vector<float> o = rows(kTokens, inputs), z = uniforms(std::size_t{kTokens} * stride, -4, 4);
    const std::vector<float> norm = uniforms(AddGatedProject::head, 0.5F, 1.5F);
    const std::vector<float> before = uniforms(std::size_t{kTokens} * kRows, -5, 5);
    AddGatedProject a{};
    a.weights = upload_blocks(matrix);
    a.o = upload(o);
    a.z = upload(z);
    a.norm = upload(norm);
    float* residual = upload(before);
    a.residual = residual;
    a.inputs = inputs;
    a.planes = 1;
    a.tiles = static_cast<uint>(matrix.tiles());
    a.groups = 1;
    a.each = a.tiles;
    a.rows = kRows;
    a.z_stride = stride;
    a.eps = kEps;
    run(a, {a.groups, kTokens});
    const auto found = download(residual, before.size());
    for (uint token = 0; token < kTokens; ++token) {
      std::vector<double> v;
      for (uint head = 0; head < heads; ++head) {
        const std::size_t at = std::size_t{head} * AddGatedProject::head;
        const auto scaled = normed(std::span(o).subspan(token * inputs + at, AddGatedProject::head), norm);
        for (std::size_t i = 0; i < scaled.size(); ++i) {
          v.push_back(scaled[i] * reference::silu(z[token * stride + at + i]));
        }
      }
      for (uint row = 0; row < kRows; ++row) {
        const auto product = matrix.multiply(static_cast<int>(row), v);
        const std::size_t at = token * kRows + row;
        ASSERT_NEAR(found[at], before[at] + product.value, product.bound + 5e-7) << row;
      }
    }
  }
}

// Groups of zeros, and magnitudes from 1e-6 to 1e5 in one row: each group has its own step.
TEST_P(Project, InputsOfAllMagnitudes) {
  const AffineMatrix matrix(16, {512, 4, 64}, 3);
  std::vector<float> x(512);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t group = i / 64;
    x[i] = group == 3 ? 0 : uniform(-1, 1) * std::pow(10.0F, static_cast<float>(group * 2) - 7);
  }
  const std::vector<float> residual(16);
  float* y = upload(residual);
  run(AddProject{upload_blocks(matrix), upload(x), y, 512, 1, 1, 1, 1, 16}, {1});
  const auto found = download(y, 16);
  const std::vector<double> wide(x.begin(), x.end());
  for (int row = 0; row < 16; ++row) {
    const auto product = matrix.multiply(row, wide);
    ASSERT_NEAR(found[static_cast<std::size_t>(row)], product.value, product.bound);
  }
}

// Codes have no NaN, so their scale must keep it.
TEST_P(Project, AnInputThatIsNoNumberGivesNoNumber) {
  const AffineMatrix matrix(16, {512, 4, 64}, random_bits());
  for (std::size_t at = 0; at < 16; ++at) {
    std::vector<float> x = uniforms(512, -1, 1);
    x[64 + at] = NAN;
    float* y = upload(std::vector<float>(16));
    run(AddProject{upload_blocks(matrix), upload(x), y, 512, 1, 1, 1, 1, 16}, {1});
    for (const float value : download(y, 16)) ASSERT_TRUE(std::isnan(value)) << "input " << 64 + at;
  }
}

LILY_FOR_ALL_DEVICES(Project);

}  // namespace
}  // namespace lily::gpu
