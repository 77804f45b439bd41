// Quantizing: MLX's bytes from either layout, what is kept and left out, refusals, and nothing left of a
// failure.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/bf16.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "lily/error.hpp"
#include "lily/quantize.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"

namespace lily::testing {
namespace {

namespace fs = std::filesystem;

const std::string kText = "model.language_model.";
const std::vector<const char*> kCopied = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
                                          "generation_config.json"};

QuantizeOptions options(const fs::path& model, const fs::path& out, int bits = 4, int group_size = 64) {
  QuantizeOptions options;
  options.model = model;
  options.out = out;
  options.bits = bits;
  options.group_size = group_size;
  return options;
}

// The edited model as a complete folder.
void save(const EditedCheckpoint& model, const fs::path& folder) {
  fs::create_directories(folder);
  model.save(folder);
  for (const char* const name : kCopied) fs::copy_file(kTinyBf16 / name, folder / name);
}

void expect_equal_tensors(const EditedCheckpoint& found, const EditedCheckpoint& expected) {
  EXPECT_EQ(found.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    const auto place = found.tensors.find(name);
    ASSERT_NE(place, found.tensors.end()) << name;
    EXPECT_EQ(place->second.dtype, tensor.dtype) << name;
    EXPECT_EQ(place->second.shape, tensor.shape) << name;
    EXPECT_TRUE(place->second.data == tensor.data) << name;
  }
}

void widen(EditedTensor& tensor) {
  std::string wide;
  for (std::size_t i = 0; i < tensor.data.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.data.data() + i, 2);
    const float value = bf16_to_float(bits);
    wide.append(reinterpret_cast<const char*>(&value), 4);
  }
  tensor.dtype = "F32";
  tensor.data = std::move(wide);
}

void narrow(EditedTensor& tensor) {
  std::string rounded;
  for (std::size_t i = 0; i < tensor.data.size(); i += 4) {
    float value = 0;
    std::memcpy(&value, tensor.data.data() + i, 4);
    const std::uint16_t bits = float_to_bf16(value);
    rounded.append(reinterpret_cast<const char*>(&bits), 2);
  }
  tensor.dtype = "BF16";
  tensor.data = std::move(rounded);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

// One half of every expert's rows of gate_up_proj.
EditedTensor half_of(const EditedTensor& fused, bool second) {
  EditedTensor half{fused.dtype, fused.shape, {}};
  half.shape[1] /= 2;
  const std::size_t bytes = fused.data.size() / static_cast<std::size_t>(fused.shape[0]) / 2;
  for (std::size_t begin = second ? bytes : 0; begin < fused.data.size(); begin += 2 * bytes)
    half.data += fused.data.substr(begin, bytes);
  return half;
}

// The bf16 model in MLX's layout, as its converter writes it when asked for no quantization.
EditedCheckpoint in_mlx_layout(const EditedCheckpoint& raw) {
  EditedCheckpoint mlx;
  mlx.config = raw.config;
  for (const auto& [name, tensor] : raw.tensors) {
    std::string renamed = replaced(name, kText, "language_model.model.");
    if (name.starts_with("lm_head")) renamed = "language_model." + name;
    if (name.ends_with("experts.gate_up_proj")) {
      mlx.tensors[replaced(renamed, "experts.gate_up_proj", "switch_mlp.gate_proj.weight")] =
          half_of(tensor, false);
      mlx.tensors[replaced(renamed, "experts.gate_up_proj", "switch_mlp.up_proj.weight")] =
          half_of(tensor, true);
      continue;
    }
    renamed = replaced(renamed, "experts.down_proj", "switch_mlp.down_proj.weight");
    EditedTensor& target = mlx.tensors[renamed] = tensor;
    if (name.ends_with("conv1d.weight")) std::swap(target.shape[1], target.shape[2]);
    if (name.ends_with("norm.weight") && name.find("linear_attn") == std::string::npos) {
      std::vector<float> factors = raw.values(name);
      for (float& factor : factors) factor += 1;
      mlx.set_values(renamed, factors);
    }
  }
  return mlx;
}

TEST(Quantize, GoldenModelGivesTheConvertersBytes) {
  const TemporaryFolder folder;
  const QuantizeReport report = quantize(options(kTinyBf16, folder.path() / "out"));
  EXPECT_EQ(report.tensors, 182);
  EXPECT_EQ(report.skipped_tensors, 0);
  const EditedCheckpoint made = EditedCheckpoint::load(folder.path() / "out");
  const EditedCheckpoint golden = EditedCheckpoint::load(kTinyQ4);
  ASSERT_EQ(golden.tensors.size(), 182U);
  expect_equal_tensors(made, golden);
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : made.tensors) bytes += tensor.data.size();
  EXPECT_EQ(report.bytes, bytes);
  EXPECT_EQ(checkpoint::Checkpoint::open(folder.path() / "out")->proof().tensors, 182);
}

TEST(Quantize, FilesBesideTheWeightsSayWhatTheyAre) {
  const TemporaryFolder folder;
  EditedCheckpoint raw = EditedCheckpoint::load(kTinyBf16);
  raw.config.set("vision_config", Json::object({{"depth", Json::integer(27)}}));
  raw.config.set("transformers_version", Json::string("4.57.1"));
  save(raw, folder.path() / "raw");
  quantize(options(folder.path() / "raw", folder.path() / "out"));
  for (const char* const name : kCopied)
    EXPECT_EQ(read_file(folder.path() / "out" / name), read_file(kTinyBf16 / name)) << name;

  const Json config = Json::parse(read_file(folder.path() / "out/config.json"));
  Json expected = Json::parse(read_file(kTinyQ4 / "config.json"));
  expected.set("transformers_version", Json::string("4.57.1"));
  EXPECT_EQ(config, expected);
  const Json index = Json::parse(read_file(folder.path() / "out/model.safetensors.index.json"));
  EXPECT_EQ(index.find("weight_map")->as_object().size(), 182U);
}

TEST(Quantize, MlxLayoutGivesTheSameBytes) {
  const TemporaryFolder folder;
  save(in_mlx_layout(EditedCheckpoint::load(kTinyBf16)), folder.path() / "raw");
  ASSERT_EQ(checkpoint::Checkpoint::open(folder.path() / "raw")->layout(), model::Layout::mlx);
  quantize(options(folder.path() / "raw", folder.path() / "out"));
  expect_equal_tensors(EditedCheckpoint::load(folder.path() / "out"), EditedCheckpoint::load(kTinyQ4));
}

TEST(Quantize, VisionAndDraftHeadAreLeftOutAndCounted) {
  const TemporaryFolder folder;
  EditedCheckpoint raw = EditedCheckpoint::load(kTinyBf16);
  raw.tensors["model.visual.patch_embed.proj.weight"] = {"BF16", {2, 2}, std::string(8, 'v')};
  raw.tensors["mtp.fc.weight"] = {"BF16", {2, 2}, std::string(8, 'm')};
  save(raw, folder.path() / "raw");
  const QuantizeReport report = quantize(options(folder.path() / "raw", folder.path() / "out"));
  EXPECT_EQ(report.skipped_tensors, 2);
  expect_equal_tensors(EditedCheckpoint::load(folder.path() / "out"), EditedCheckpoint::load(kTinyQ4));
}

// The golden model has A_log in f32, as earlier models of the family, and later ones have it in bf16: either
// is kept. Everything else becomes bf16.
TEST(Quantize, WideTensorsBecomeBf16ButALogStaysAsItIs) {
  const TemporaryFolder folder;
  const std::string a_log = "layers.1.linear_attn.A_log";
  EditedCheckpoint raw = EditedCheckpoint::load(kTinyBf16);
  EditedCheckpoint expected = EditedCheckpoint::load(kTinyQ4);
  ASSERT_EQ(raw.tensors.at(kText + "layers.0.linear_attn.A_log").dtype, "F32");
  narrow(raw.tensors.at(kText + a_log));
  narrow(expected.tensors.at("language_model.model." + a_log));
  for (const char* const name : {"linear_attn.norm.weight", "linear_attn.conv1d.weight",
                                 "input_layernorm.weight", "mlp.experts.gate_up_proj"}) {
    widen(raw.tensors.at(kText + "layers.1." + name));
  }
  save(raw, folder.path() / "raw");
  quantize(options(folder.path() / "raw", folder.path() / "out"));
  expect_equal_tensors(EditedCheckpoint::load(folder.path() / "out"), expected);
}

// A vocabulary that needs several reads: rows repeat with a period that no range boundary shares.
TEST(Quantize, LongMatricesAreCutAndPutTogether) {
  constexpr std::size_t kRows = 10007;
  constexpr std::size_t kPeriod = 509;
  const TemporaryFolder folder;
  EditedCheckpoint raw = EditedCheckpoint::load(kTinyBf16);
  EditedCheckpoint expected = EditedCheckpoint::load(kTinyQ4);
  const auto stretch = [&](EditedTensor& tensor) {
    const std::size_t row_bytes = tensor.data.size() / static_cast<std::size_t>(tensor.shape[0]);
    std::string data;
    for (std::size_t row = 0; row < kRows; ++row)
      data += tensor.data.substr(row % kPeriod * row_bytes, row_bytes);
    tensor.shape[0] = kRows;
    tensor.data = std::move(data);
  };
  stretch(raw.tensors.at(kText + "embed_tokens.weight"));
  stretch(raw.tensors.at("lm_head.weight"));
  for (const char* const part : {"weight", "scales", "biases"}) {
    stretch(expected.tensors.at(fmt::format("language_model.model.embed_tokens.{}", part)));
    stretch(expected.tensors.at(fmt::format("language_model.lm_head.{}", part)));
  }
  raw.patch_config("text_config.vocab_size", Json::integer(kRows));
  save(raw, folder.path() / "raw");
  quantize(options(folder.path() / "raw", folder.path() / "out"));
  expect_equal_tensors(EditedCheckpoint::load(folder.path() / "out"), expected);
}

class QuantizePair : public ::testing::TestWithParam<std::pair<int, int>> {};

// Opening proves shapes and configuration; values come back within a step of the codes.
TEST_P(QuantizePair, OpensAndDecodesCloseToTheOriginal) {
  const auto [bits, group_size] = GetParam();
  const TemporaryFolder folder;
  quantize(options(kTinyBf16, folder.path() / "out", bits, group_size));
  const auto made = checkpoint::Checkpoint::open(folder.path() / "out");
  const auto original = checkpoint::Checkpoint::open(kTinyBf16);
  const checkpoint::Matrix& up = made->layers()[2].moe.up_proj;
  EXPECT_EQ(up.group_size, group_size);
  EXPECT_EQ(up.format, bits == 4 ? checkpoint::MatrixFormat::affine4 : checkpoint::MatrixFormat::affine8);
  const checkpoint::Matrix& router = made->layers()[2].moe.router;
  EXPECT_EQ(router.group_size, 64);
  EXPECT_EQ(router.format, checkpoint::MatrixFormat::affine8);

  std::vector<float> values(static_cast<std::size_t>(up.columns));
  std::vector<float> expected(values.size());
  for (int expert = 0; expert < up.experts; ++expert) {
    for (std::int64_t row = 0; row < up.rows; ++row) {
      checkpoint::decode_row(*made, up, expert, row, values);
      checkpoint::decode_row(*original, original->layers()[2].moe.up_proj, expert, row, expected);
      float widest = 0;
      for (const float value : expected) widest = std::max(widest, std::abs(value));
      const double step = 2.0 * widest / ((1 << bits) - 1);
      EXPECT_LE(max_abs_difference(values, expected), step + widest / 128) << expert << " " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, QuantizePair,
                         ::testing::Values(std::pair(4, 32), std::pair(8, 32), std::pair(8, 64)));

TEST(Quantize, ProgressRunsToItsTotal) {
  const TemporaryFolder folder;
  QuantizeOptions asked = options(kTinyBf16, folder.path() / "out");
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  asked.progress = [&](std::string_view, std::uint64_t done, std::uint64_t all, std::string_view unit) {
    EXPECT_GE(done, last);
    EXPECT_EQ(unit, "bytes");
    last = done;
    total = all;
  };
  const QuantizeReport report = quantize(asked);
  EXPECT_EQ(total, report.bytes);
  EXPECT_EQ(last, total);
}

// The Error, after checking that the output folder was not left behind.
Error refusal(const QuantizeOptions& asked) {
  Error error = raised([&] { quantize(asked); });
  EXPECT_FALSE(fs::exists(asked.out)) << asked.out;
  return error;
}

TEST(Quantize, QuantizedModelsAreRefusedByName) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const Error mlx = refusal(options(kTinyQ4, out));
  EXPECT_EQ(mlx.kind(), ErrorKind::unsupported);
  expect_mentions(mlx, "tiny-q4: is quantized already (4 bit, groups of 64)");

  EditedCheckpoint unnamed = EditedCheckpoint::load(kTinyQ4);
  std::erase_if(unnamed.config.as_object(),
                [](const Json::Member& member) { return member.first.starts_with("quantization"); });
  save(unnamed, folder.path() / "unnamed");
  expect_mentions(refusal(options(folder.path() / "unnamed", out)), "the weights are quantized");

  EditedCheckpoint other = EditedCheckpoint::load(kTinyBf16);
  other.config.set("quantization_config", Json::object({{"quant_method", Json::string("fp8")}}));
  save(other, folder.path() / "other");
  expect_mentions(refusal(options(folder.path() / "other", out)), "fp8");
}

TEST(Quantize, ValuesThatCannotBeEncodedAreNamed) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  const std::string name = kText + "layers.2.mlp.experts.gate_up_proj";
  EditedCheckpoint raw = EditedCheckpoint::load(kTinyBf16);
  std::vector<float> values = raw.values(name);
  values[128 * 1000 + 7] = std::nanf("");
  raw.set_values(name, values);
  save(raw, folder.path() / "nan");
  const Error nan = refusal(options(folder.path() / "nan", out));
  EXPECT_EQ(nan.kind(), ErrorKind::bad_input);
  expect_mentions(nan, name);
  expect_mentions(nan, "row 1000 has a value that is not finite");

  values[128 * 1000 + 7] = 3e38F;
  values[128 * 1000 + 8] = -3e38F;
  raw.set_values(name, values);
  save(raw, folder.path() / "wide");
  expect_mentions(refusal(options(folder.path() / "wide", out)),
                  "row 1000 has a group whose range is too wide");

  // The largest float is finite, but the nearest bf16 is not.
  raw = EditedCheckpoint::load(kTinyBf16);
  EditedTensor& bias = raw.tensors.at(kText + "layers.0.linear_attn.dt_bias");
  std::vector<float> wide(static_cast<std::size_t>(bias.shape.front()), 0.0F);
  wide[3] = std::numeric_limits<float>::max();
  bias.dtype = "F32";
  bias.data.assign(reinterpret_cast<const char*>(wide.data()), wide.size() * sizeof(float));
  save(raw, folder.path() / "vector");
  const Error vector = refusal(options(folder.path() / "vector", out));
  expect_mentions(vector, "layers.0.linear_attn.dt_bias: value 3.4028235e+38 at index 3 is too large");
  EXPECT_FALSE(fs::exists(out));
}

TEST(Quantize, BadRequestsAreRefused) {
  const TemporaryFolder folder;
  const fs::path out = folder.path() / "out";
  expect_mentions(refusal(options(kTinyBf16, out, 5)), "bits is 5");
  expect_mentions(refusal(options(kTinyBf16, out, 4, 48)), "group size is 48");
  const Error groups = refusal(options(kTinyBf16, out, 4, 128));
  expect_mentions(groups, "switch_mlp.down_proj");
  expect_mentions(groups, "64 columns");
  EXPECT_EQ(refusal(options(folder.path() / "absent", out)).kind(), ErrorKind::not_found);

  save(EditedCheckpoint::load(kTinyBf16), folder.path() / "bare");
  fs::remove(folder.path() / "bare/tokenizer.json");
  expect_mentions(refusal(options(folder.path() / "bare", out)), "tokenizer.json");

  fs::create_directories(folder.path() / "used");
  write_file(folder.path() / "used/notes.txt", "mine");
  const Error used = raised([&] { quantize(options(kTinyBf16, folder.path() / "used")); });
  EXPECT_EQ(used.kind(), ErrorKind::bad_input);
  expect_mentions(used, "used: is not empty");
  EXPECT_EQ(read_file(folder.path() / "used/notes.txt"), "mine");
}

// Ends the process; 0: a file-size limit stopped the writing, the error named the file, and nothing stayed.
[[noreturn]] void quantize_with_full_disk(const fs::path& out) {
  std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead of the process
  const rlimit limit{1000000, 1000000};
  setrlimit(RLIMIT_FSIZE, &limit);
  const Error error = refusal(options(kTinyBf16, out));
  const bool named = std::string(error.what()).find("out/model.safetensors") != std::string::npos;
  std::_Exit(named && error.kind() == ErrorKind::device && !fs::exists(out) ? 0 : 1);
}

TEST(QuantizeDeathTest, FullDiskLeavesNothingBehind) {
  const TemporaryFolder folder;
  EXPECT_EXIT(quantize_with_full_disk(folder.path() / "out"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lily::testing
