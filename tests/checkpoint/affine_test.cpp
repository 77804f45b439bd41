// Affine quantization: bit-exact decoding of recorded MLX values, and encoding by MLX's rule.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/bf16.hpp"
#include "checkpoint/affine.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "support/fixtures.hpp"

namespace lily::testing {
namespace {

std::vector<std::byte> bf16_bytes(const Json& numbers) {
  std::vector<std::byte> bytes;
  for (const Json& number : numbers.as_array()) {
    const std::uint16_t bits = float_to_bf16(static_cast<float>(number.as_double()));
    EXPECT_EQ(static_cast<double>(bf16_to_float(bits)), number.as_double());
    bytes.push_back(static_cast<std::byte>(bits & 0xffU));
    bytes.push_back(static_cast<std::byte>(bits >> 8));
  }
  return bytes;
}

TEST(Affine, DecodesTheRecordedValuesBitForBit) {
  const Json fixture = Json::parse(read_file(kData / "mlx-affine-quant-fixture.json"));
  std::size_t compared = 0;
  for (const Json& item : fixture.find("cases")->as_array()) {
    const auto rows = static_cast<std::size_t>(*item.find("rows")->as_integer());
    const auto columns = static_cast<std::size_t>(*item.find("cols")->as_integer());
    const int bits = static_cast<int>(*item.find("bits")->as_integer());
    const int group = static_cast<int>(*item.find("group_size")->as_integer());
    std::vector<std::byte> codes;
    for (const Json& word : item.find("codes")->as_array()) {
      for (int i = 0; i < 4; ++i)
        codes.push_back(static_cast<std::byte>((*word.as_integer() >> (8 * i)) & 0xff));
    }
    const std::vector<std::byte> scales = bf16_bytes(*item.find("scales"));
    const std::vector<std::byte> biases = bf16_bytes(*item.find("biases"));
    const std::size_t row_codes = codes.size() / rows;
    const std::size_t row_groups = scales.size() / rows;
    const Json::Array& expected = item.find("expected")->as_array();
    std::vector<float> out(columns);
    for (std::size_t r = 0; r < rows; ++r) {
      checkpoint::decode_affine_row(std::span(codes).subspan(r * row_codes, row_codes),
                                    std::span(scales).subspan(r * row_groups, row_groups),
                                    std::span(biases).subspan(r * row_groups, row_groups), bits, group, out);
      for (std::size_t c = 0; c < columns; ++c, ++compared) {
        ASSERT_EQ(static_cast<double>(out[c]), expected[r * columns + c].as_double())
            << item.find("name")->as_string() << " row " << r << " column " << c;
      }
    }
  }
  EXPECT_EQ(compared, 1472U);
}

struct Encoded {
  std::vector<std::uint8_t> codes;
  std::vector<float> decoded;
  float scale = 0;
  float bias = 0;
};

Encoded round_trip(const std::vector<float>& values, int bits) {
  Encoded result;
  result.codes.resize(values.size());
  const checkpoint::AffineGroup group = checkpoint::encode_affine_group(values, bits, result.codes);
  std::vector<std::byte> packed(values.size() * static_cast<std::size_t>(bits) / 8);
  checkpoint::pack_codes(result.codes, bits, packed);
  const auto bytes_of = [](std::uint16_t bf16) {
    return std::vector<std::byte>{static_cast<std::byte>(bf16 & 0xffU), static_cast<std::byte>(bf16 >> 8)};
  };
  result.decoded.resize(values.size());
  checkpoint::decode_affine_row(packed, bytes_of(group.scale), bytes_of(group.bias), bits,
                                static_cast<int>(values.size()), result.decoded);
  result.scale = bf16_to_float(group.scale);
  result.bias = bf16_to_float(group.bias);
  return result;
}

TEST(Affine, EdgeIsExactAndSignOfScaleFollowsIt) {
  std::vector<float> values(64);
  for (std::size_t i = 0; i < 64; ++i) values[i] = static_cast<float>(i) / 64 - 0.25F;
  values[63] = 1;  // largest magnitude positive: negative scale
  const Encoded positive = round_trip(values, 4);
  EXPECT_LT(positive.scale, 0);
  EXPECT_EQ(positive.decoded[63], 1);
  EXPECT_EQ(positive.codes[63], 0);

  for (float& value : values) value = -value;
  const Encoded negative = round_trip(values, 4);
  EXPECT_GT(negative.scale, 0);
  EXPECT_EQ(negative.decoded[63], -1);
}

TEST(Affine, ConstantAndZeroGroupsSurvive) {
  for (const float value : {0.0F, 0.5F, -0.5F, 1e-30F}) {
    const Encoded result = round_trip(std::vector<float>(64, value), 4);
    for (const float decoded : result.decoded) {
      EXPECT_TRUE(std::isfinite(decoded));
      EXPECT_NEAR(decoded, value, std::abs(value) * 0.01 + 1e-6);
    }
  }
}

// Placing zero on a code may shorten the range by up to half a step per |code of zero|, which is at least
// half of the levels when the group straddles zero: the far end is then clamped by up to one step.
TEST(Affine, RandomGroupsComeBackWithinOneStep) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const int bits : {4, 8}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<float> values(64);
      const float offset = normal(random);
      for (float& value : values) value = normal(random) + offset;
      const Encoded result = round_trip(values, bits);
      // Storing scale and bias in bf16 adds 2^-9 of each.
      const double levels = bits == 4 ? 15 : 255;
      const double tolerance =
          std::abs(result.scale) + (levels * std::abs(result.scale) + std::abs(result.bias)) / 512;
      EXPECT_LE(max_abs_difference(values, result.decoded), tolerance);
    }
  }
}

// The 4-bit golden model was made by MLX itself; quantizing the bf16 model here must give its bytes.
TEST(Affine, EncodingEqualsMlxOnTheGoldenModel) {
  const EditedCheckpoint raw = EditedCheckpoint::load(kTinyBf16);
  const EditedCheckpoint quantized = EditedCheckpoint::load(kTinyQ4);
  const auto check = [&](const std::string& source, const std::string& target, int bits) {
    const std::vector<float> values = raw.values(source);
    std::string codes;
    std::string scales;
    std::string biases;
    std::vector<std::uint8_t> group_codes(64);
    std::vector<std::byte> packed(static_cast<std::size_t>(8 * bits));
    for (std::size_t i = 0; i < values.size(); i += 64) {
      const checkpoint::AffineGroup group =
          checkpoint::encode_affine_group(std::span(values).subspan(i, 64), bits, group_codes);
      checkpoint::pack_codes(group_codes, bits, packed);
      codes.append(reinterpret_cast<const char*>(packed.data()), packed.size());
      scales.append(reinterpret_cast<const char*>(&group.scale), 2);
      biases.append(reinterpret_cast<const char*>(&group.bias), 2);
    }
    EXPECT_EQ(codes, quantized.tensors.at(target + ".weight").data) << target;
    EXPECT_EQ(scales, quantized.tensors.at(target + ".scales").data) << target;
    EXPECT_EQ(biases, quantized.tensors.at(target + ".biases").data) << target;
  };
  check("lm_head.weight", "language_model.lm_head", 4);
  check("model.language_model.embed_tokens.weight", "language_model.model.embed_tokens", 4);
  check("model.language_model.layers.2.linear_attn.in_proj_qkv.weight",
        "language_model.model.layers.2.linear_attn.in_proj_qkv", 4);
  check("model.language_model.layers.3.mlp.gate.weight", "language_model.model.layers.3.mlp.gate", 8);
  check("model.language_model.layers.1.mlp.experts.down_proj",
        "language_model.model.layers.1.mlp.switch_mlp.down_proj", 4);
}

}  // namespace
}  // namespace lily::testing
