// What a valid checkpoint binds to, and what the proof of tensors, shards and quantization refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/published_template.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::Checkpoint;
using checkpoint::Matrix;
using checkpoint::MatrixFormat;

constexpr const char* kQProj = "language_model.model.layers.3.self_attn.q_proj";

std::vector<float> row(const Checkpoint& checkpoint, const Matrix& matrix, int expert, std::int64_t index) {
  std::vector<float> values(static_cast<std::size_t>(matrix.columns));
  checkpoint::decode_row(checkpoint, matrix, expert, index, values);
  return values;
}

// The error after `edit` was applied to the tiny 4-bit model.
template <class Edit>
std::string error_after(const Edit& edit, int shards = 2) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint = EditedCheckpoint::load(kTinyQ4);
  edit(checkpoint);
  checkpoint.save(folder.path(), shards);
  return open_error(folder.path());
}

TEST(Proof, CountsTensorsAndBytes) {
  const auto checkpoint = Checkpoint::open(kTinyQ4);
  EXPECT_EQ(checkpoint->proof().shards, 2);
  EXPECT_EQ(checkpoint->proof().tensors, 182);
  EXPECT_EQ(checkpoint->proof().tensor_bytes, 3816496U);  // total_size of the index
  EXPECT_EQ(checkpoint->proof().skipped, 0);
  EXPECT_TRUE(checkpoint->proof().notes.empty());
}

TEST(Proof, FormatsFollowTheFiles) {
  const auto quantized = Checkpoint::open(kTinyQ4);
  const checkpoint::Layer& layer = quantized->layers()[0];
  EXPECT_EQ(layer.moe.router.format, MatrixFormat::affine8);
  EXPECT_EQ(layer.moe.shared_expert_gate.format, MatrixFormat::affine8);
  EXPECT_EQ(layer.moe.gate_proj.format, MatrixFormat::affine4);
  EXPECT_EQ(layer.delta_net->in_proj_a.format, MatrixFormat::affine4);
  EXPECT_EQ(quantized->embedding().format, MatrixFormat::affine4);
  EXPECT_EQ(layer.moe.down_proj.experts, 32);
  EXPECT_EQ(layer.moe.down_proj.stored_bytes(),
            layer.moe.down_proj.weight.bytes + 2 * layer.moe.down_proj.scales.bytes);

  const auto raw = Checkpoint::open(kTinyBf16);
  EXPECT_EQ(raw->layout(), model::Layout::hugging_face);
  EXPECT_EQ(raw->layers()[0].moe.up_proj.format, MatrixFormat::bf16);
}

// The same model in both layouts: a weight moves by half a step, which is the group's range over 30. Gate and
// up rows that were mixed up, or norms shifted once too often, would be far away.
TEST(Proof, LayoutsAgreeWithinQuantization) {
  const auto quantized = Checkpoint::open(kTinyQ4);
  const auto raw = Checkpoint::open(kTinyBf16);
  for (std::size_t i = 0; i < raw->layers().size(); ++i) {
    const checkpoint::MixtureOfExperts& a = raw->layers()[i].moe;
    const checkpoint::MixtureOfExperts& b = quantized->layers()[i].moe;
    for (const auto& [left, right] :
         {std::pair(&a.gate_proj, &b.gate_proj), std::pair(&a.up_proj, &b.up_proj),
          std::pair(&a.down_proj, &b.down_proj), std::pair(&a.router, &b.router)}) {
      for (int expert = 0; expert < left->experts; ++expert) {
        const std::vector<float> exact = row(*raw, *left, expert, left->rows - 1);
        const std::vector<float> rounded = row(*quantized, *right, expert, right->rows - 1);
        const auto [low, high] = std::minmax_element(exact.begin(), exact.end());
        EXPECT_LE(max_abs_difference(exact, rounded), (*high - *low) / 15) << left->name << " " << expert;
      }
    }
    EXPECT_LE(max_abs_difference(raw->layers()[i].input_norm, quantized->layers()[i].input_norm), 0.004);
  }
  EXPECT_LE(max_abs_difference(raw->final_norm(), quantized->final_norm()), 0.004);
}

TEST(Proof, MappedAndReadBytesAreTheSame) {
  const auto checkpoint = Checkpoint::open(kTinyQ4);
  const checkpoint::Extent& extent = checkpoint->layers()[2].moe.down_proj.weight;
  std::vector<std::byte> copy(static_cast<std::size_t>(extent.bytes - 5));
  checkpoint->read(extent, 5, copy);
  const auto mapped = checkpoint->mapped(extent).subspan(5);
  EXPECT_TRUE(std::equal(copy.begin(), copy.end(), mapped.begin(), mapped.end()));
  EXPECT_THROW(checkpoint->read(extent, 6, copy), Error);
}

TEST(Proof, ReadNamesTheFileThatShrank) {
  const TemporaryFolder folder;
  EditedCheckpoint::load(kTinyQ4).save(folder.path(), 1);
  const auto checkpoint = Checkpoint::open(folder.path());
  fs::resize_file(folder.path() / "model.safetensors", 100000);
  const checkpoint::Extent& extent = checkpoint->layers()[3].moe.up_proj.weight;
  std::vector<std::byte> copy(static_cast<std::size_t>(extent.bytes));
  try {
    checkpoint->read(extent, 0, copy);
    FAIL() << "read from a file that ends before";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_TRUE(contains(error.what(), "model.safetensors"));
  }
}

TEST(Proof, RowsOutsideTheMatrixAreRefused) {
  const auto checkpoint = Checkpoint::open(kTinyQ4);
  const Matrix& matrix = checkpoint->layers()[0].moe.gate_proj;
  std::vector<float> out(static_cast<std::size_t>(matrix.columns));
  EXPECT_THROW(checkpoint::decode_row(*checkpoint, matrix, 32, 0, out), Error);
  EXPECT_THROW(checkpoint::decode_row(*checkpoint, matrix, 0, matrix.rows, out), Error);
  EXPECT_THROW(checkpoint::decode_row(*checkpoint, matrix, -1, 0, out), Error);
}

TEST(Proof, TruncatedShardIsNamed) {
  const TemporaryFolder folder;
  EditedCheckpoint::load(kTinyQ4).save(folder.path());
  const fs::path shard = folder.path() / "model-00002-of-00002.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_TRUE(contains(open_error(folder.path()), {"model-00002", "truncated"}));
}

TEST(Proof, TensorThatTheIndexDoesNotListIsRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint = EditedCheckpoint::load(kTinyQ4);
  checkpoint.save(folder.path());
  const std::string index = read_file(folder.path() / "model.safetensors.index.json");
  checkpoint.tensors["language_model.model.extra.weight"] = {"BF16", {2}, std::string(4, '\0')};
  checkpoint.save(folder.path());
  write_file(folder.path() / "model.safetensors.index.json", index);
  EXPECT_TRUE(contains(open_error(folder.path()), {"extra.weight", "weight_map"}));
}

TEST(Proof, TensorInTwoShardsIsRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint = EditedCheckpoint::load(kTinyQ4);
  checkpoint.save(folder.path());
  EditedCheckpoint second;
  second.config = checkpoint.config;
  const std::string shard = read_file(folder.path() / "model-00001-of-00002.safetensors");
  write_file(folder.path() / "model-00002-of-00002.safetensors", shard);
  EXPECT_TRUE(contains(open_error(folder.path()), "weight_map"));
}

TEST(Proof, IndexMayNotLeaveTheFolder) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint = EditedCheckpoint::load(kTinyQ4);
  checkpoint.save(folder.path(), 2,
                  {{std::string(kQProj) + ".weight", "../model-00001-of-00002.safetensors"}});
  EXPECT_TRUE(contains(open_error(folder.path()), {"weight_map", "same folder"}));
}

TEST(Proof, FolderWithoutWeightsIsNamed) {
  const TemporaryFolder folder;
  fs::copy(kTinyQ4 / "config.json", folder.path() / "config.json");
  EXPECT_TRUE(contains(open_error(folder.path()), {folder.path().string(), "model.safetensors"}));
}

TEST(Proof, WrongShapeIsNamedWithBothShapes) {
  const std::string error = error_after([](EditedCheckpoint& checkpoint) {
    EditedTensor& norm = checkpoint.tensors.at("language_model.model.layers.0.input_layernorm.weight");
    norm.shape = {64, 2};
  });
  EXPECT_TRUE(contains(error, {"input_layernorm", "[64, 2]", "[128]"}));
}

TEST(Proof, NotANumberInAVectorIsRefused) {
  const std::string error = error_after([](EditedCheckpoint& checkpoint) {
    std::vector<float> values = checkpoint.values("language_model.model.norm.weight");
    values[7] = NAN;
    checkpoint.set_values("language_model.model.norm.weight", values);
  });
  EXPECT_TRUE(contains(error, {"model.norm.weight", "index 7"}));
}

TEST(Quantization, WeightWithoutScalesIsRefused) {
  const std::string error = error_after([](EditedCheckpoint& checkpoint) {
    checkpoint.tensors.erase(std::string(kQProj) + ".scales");
    checkpoint.tensors.erase(std::string(kQProj) + ".biases");
  });
  EXPECT_TRUE(contains(error, {kQProj, "scales"}));
}

TEST(Quantization, ScalesWithoutBiasesAreRefused) {
  const std::string error = error_after(
      [](EditedCheckpoint& checkpoint) { checkpoint.tensors.erase(std::string(kQProj) + ".biases"); });
  EXPECT_TRUE(contains(error, {kQProj, "biases"}));
}

TEST(Quantization, ScalesOfAnotherTypeAreRefused) {
  const std::string error = error_after([](EditedCheckpoint& checkpoint) {
    checkpoint.tensors.at(std::string(kQProj) + ".scales").dtype = "F16";
  });
  EXPECT_TRUE(contains(error, {std::string(kQProj) + ".scales", "F16", "BF16"}));
}

TEST(Quantization, BitsMustAgreeWithShapes) {
  const std::string router = "language_model.model.layers.1.mlp.gate";
  const std::string error = error_after([&](EditedCheckpoint& checkpoint) {
    for (auto& [name, value] : checkpoint.config.as_object()) {
      if (name != "quantization") continue;
      value.set(router, Json::object({{"bits", Json::integer(4)}, {"group_size", Json::integer(64)}}));
    }
  });
  EXPECT_TRUE(contains(error, {router, "8 bits", "4 bits"}));
}

TEST(Quantization, OverrideFalseContradictsScales) {
  const std::string error = error_after([](EditedCheckpoint& checkpoint) {
    for (auto& [name, value] : checkpoint.config.as_object()) {
      if (name == "quantization") value.set(kQProj, Json::boolean(false));
    }
  });
  EXPECT_TRUE(contains(error, {kQProj, "scales"}));
}

// Other uploads use smaller and larger groups, and leave single modules in bf16.
class GroupSizes : public ::testing::TestWithParam<int> {};

TEST_P(GroupSizes, AreReadByTheirOwnPair) {
  const int group = GetParam();
  const TemporaryFolder folder;
  EditedCheckpoint edited = EditedCheckpoint::load(kTinyQ4);
  const std::string router = "language_model.model.layers.0.mlp.gate";
  const std::int64_t rows = 32;
  const std::int64_t groups = 128 / group;
  edited.tensors[router + ".weight"] = {
      "U32", {rows, 32}, std::string(static_cast<std::size_t>(rows * 128), '\x03')};
  for (const char* const part : {".scales", ".biases"}) {
    edited.tensors[router + part] = {
        "BF16", {rows, groups}, std::string(static_cast<std::size_t>(rows * groups * 2), '\0')};
    std::vector<float> values;
    for (std::int64_t i = 0; i < rows * groups; ++i) {
      values.push_back(std::string(part) == ".scales" ? -0.5F : static_cast<float>(i % groups));
    }
    edited.set_values(router + part, values);
  }
  for (auto& [name, value] : edited.config.as_object()) {
    if (name != "quantization") continue;
    value.set(router, Json::object({{"bits", Json::integer(8)}, {"group_size", Json::integer(group)}}));
  }
  edited.save(folder.path());
  const auto checkpoint = Checkpoint::open(folder.path());
  const Matrix& matrix = checkpoint->layers()[0].moe.router;
  EXPECT_EQ(matrix.group_size, group);
  const std::vector<float> values = row(*checkpoint, matrix, 0, 5);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t group_of_value = i / static_cast<std::size_t>(group);
    EXPECT_EQ(values[i], -1.5F + static_cast<float>(group_of_value));
  }
}

INSTANTIATE_TEST_SUITE_P(Groups, GroupSizes, ::testing::Values(32, 64, 128));

TEST(Quantization, UnquantizedModuleAmongQuantizedOnes) {
  const TemporaryFolder folder;
  EditedCheckpoint edited = EditedCheckpoint::load(kTinyQ4);
  const std::string gate = "language_model.model.layers.0.mlp.shared_expert_gate";
  edited.tensors.erase(gate + ".scales");
  edited.tensors.erase(gate + ".biases");
  edited.tensors[gate + ".weight"] = {"BF16", {1, 128}, std::string(256, '\0')};
  edited.set_values(gate + ".weight", std::vector<float>(128, 0.25F));
  edited.save(folder.path());
  const auto checkpoint = Checkpoint::open(folder.path());
  const Matrix& matrix = checkpoint->layers()[0].moe.shared_expert_gate;
  EXPECT_EQ(matrix.format, MatrixFormat::bf16);
  EXPECT_EQ(row(*checkpoint, matrix, 0, 0), std::vector<float>(128, 0.25F));
}

TEST(PublishedTemplate, IsTheOneTheCheckpointsCarry) {
  EXPECT_EQ(published_chat_template(), read_file(kTinyQ4 / "chat_template.jinja"));
}

}  // namespace
}  // namespace lily::testing
