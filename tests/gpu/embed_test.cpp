// Embedding rows: the decoded weights, exactly.
#include "gpu/affine_matrix.hpp"
#include "gpu/device_test.hpp"

namespace lily::gpu {
namespace {

class Embed : public DeviceTest {};

TEST_P(Embed, RowsAreDecodedExactly) {
  for (const AffineFormat format :
       {AffineFormat{128, 4, 64}, AffineFormat{256, 8, 64, 2}, AffineFormat{320, 4, 32}}) {
    constexpr int kVocabulary = 9;
    const AffineMatrix matrix(kVocabulary, format, random_bits());
    const std::size_t words = static_cast<std::size_t>(format.columns * format.bits / 32) * kVocabulary;
    const std::size_t groups = static_cast<std::size_t>(format.columns / format.group_size) * kVocabulary;
    const AffineRow first = matrix.row(0);
    const std::vector<uint> tokens = {0, 8, 3, 3};
    const auto hidden = static_cast<std::size_t>(format.columns);
    EmbedRow a{};
    a.codes = upload(std::vector<uint>(first.codes, first.codes + words));
    a.scales = reinterpret_cast<in<bfloat>>(upload(std::vector<ushort>(first.scales, first.scales + groups)));
    a.biases = reinterpret_cast<in<bfloat>>(upload(std::vector<ushort>(first.biases, first.biases + groups)));
    a.token = upload(tokens);
    a.vocabulary = kVocabulary;
    a.hidden = static_cast<uint>(hidden);
    a.bits = static_cast<uint>(format.bits);
    a.group_size = static_cast<uint>(format.group_size);
    float* x = room<float>(tokens.size() * hidden);
    a.x = x;
    run(a, {1, static_cast<uint>(tokens.size())});
    const auto found = download(x, tokens.size() * hidden);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      for (std::size_t column = 0; column < hidden; ++column) {
        const int row = static_cast<int>(tokens[i]), c = static_cast<int>(column);
        const auto expected =
            static_cast<float>(matrix.code_part(row, c)) + static_cast<float>(matrix.bias(row, c));
        // Devices that fuse the multiplication and the addition round once instead of twice.
        ASSERT_NEAR(found[i * hidden + column], expected, 1.2e-7 * std::fabs(matrix.code_part(row, c)));
      }
    }
  }
}

LILY_FOR_ALL_DEVICES(Embed);

}  // namespace
}  // namespace lily::gpu
