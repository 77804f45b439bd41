// The real model's tensors and sizes, against the derived manifest and the published totals.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <sstream>
#include <string>

#include "checkpoint/config.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "checkpoint/synthetic_plan.hpp"
#include "model/dimensions.hpp"
#include "model/tensors.hpp"
#include "support/fixtures.hpp"

namespace lily::testing {
namespace {

model::Dimensions official_dimensions() {
  const TemporaryFolder folder;
  write_file(folder.path() / "config.json", read_file(kData / "qwen3.6-35b-a3b-config.json"));
  return checkpoint::read_config(folder.path()).dimensions;
}

struct ManifestRow {
  std::string dtype;
  std::string shape;
};

std::map<std::string, ManifestRow> manifest() {
  std::map<std::string, ManifestRow> rows;
  std::istringstream lines(read_file(kData / "qwen36-35b-4bit-tensor-manifest.tsv"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream fields(line);
    std::string name;
    ManifestRow row;
    std::getline(fields, name, '\t');
    std::getline(fields, row.dtype, '\t');
    std::getline(fields, row.shape, '\t');
    rows[name] = row;
  }
  return rows;
}

std::string comma_shape(const std::vector<std::int64_t>& shape) {
  return fmt::format("{}", fmt::join(shape, ","));
}

TEST(Manifest, ExpectedTensorsAreExactlyItsModules) {
  const std::map<std::string, ManifestRow> rows = manifest();
  ASSERT_EQ(rows.size(), 1757U);
  std::size_t matched = 0;
  for (const model::TensorSpec& spec : model::expected_tensors(official_dimensions(), model::Layout::mlx)) {
    ASSERT_TRUE(rows.contains(spec.name)) << spec.name;
    const ManifestRow& row = rows.at(spec.name);
    if (spec.kind != model::TensorKind::matrix) {
      EXPECT_EQ(row.shape, comma_shape(spec.shape)) << spec.name;
      ++matched;
      continue;
    }
    const std::string module = spec.name.substr(0, spec.name.rfind('.'));
    std::vector<std::int64_t> groups = spec.shape;
    groups.back() /= 64;
    EXPECT_EQ(row.dtype, "U32");
    EXPECT_EQ(rows.at(module + ".scales").shape, comma_shape(groups)) << module;
    EXPECT_EQ(rows.at(module + ".biases").shape, comma_shape(groups)) << module;
    matched += 3;
  }
  EXPECT_EQ(matched, rows.size());
}

TEST(Manifest, SyntheticTensorsAreExactlyTheManifest) {
  const std::map<std::string, ManifestRow> rows = manifest();
  const auto tensors = checkpoint::synthetic_tensors(checkpoint::synthetic_preset("35b").dimensions);
  ASSERT_EQ(tensors.size(), rows.size());
  std::uint64_t total = 0;
  for (const checkpoint::SyntheticTensor& tensor : tensors) {
    ASSERT_TRUE(rows.contains(tensor.output.name)) << tensor.output.name;
    const ManifestRow& row = rows.at(tensor.output.name);
    EXPECT_EQ(comma_shape(tensor.output.shape), row.shape) << tensor.output.name;
    EXPECT_NE(row.dtype.find(tensor.output.dtype), std::string::npos) << tensor.output.name;
    total += tensor.output.bytes();
  }
  EXPECT_EQ(total, 19508787456U);  // total_size of the text model with every vector in bf16
}

TEST(Manifest, HuggingFaceLayoutHasThePublishedParameters) {
  const auto specs = model::expected_tensors(official_dimensions(), model::Layout::hugging_face);
  EXPECT_EQ(specs.size(), 18U * 30 + 15 * 10 + 3);
  std::int64_t parameters = 0;
  for (const model::TensorSpec& spec : specs) {
    parameters += std::accumulate(spec.shape.begin(), spec.shape.end(), std::int64_t{1}, std::multiplies<>());
  }
  EXPECT_EQ(parameters, 34660610688);
}

TEST(Manifest, IgnoredNames) {
  for (const char* const name :
       {"model.visual.blocks.0.attn.qkv.weight", "vision_tower.patch_embed.proj.weight", "mtp.fc.weight",
        "language_model.mtp.layers.0.mlp.gate.scales"}) {
    EXPECT_TRUE(model::is_ignored_tensor(name)) << name;
  }
  for (const model::TensorSpec& spec : model::expected_tensors(official_dimensions(), model::Layout::mlx)) {
    EXPECT_FALSE(model::is_ignored_tensor(spec.name)) << spec.name;
  }
}

TEST(Sizes, MatchThePublishedNumbers) {
  const model::Dimensions dims = official_dimensions();
  const model::StateSizes state = model::state_sizes(dims);
  EXPECT_EQ(state.delta_net * 4, 62914560);
  EXPECT_EQ(state.conv_window * 2, 1474560);
  EXPECT_EQ(state.kv_per_token * 2, 20480);
  const model::TokenCost cost = model::token_cost(dims);
  EXPECT_EQ(cost.decode_multiply_adds, 2945269760.0);
  EXPECT_EQ(cost.prefill_operations, 2.0 * (2945269760.0 - 508559360.0));
  EXPECT_EQ(cost.attention_operations_per_cached_token, 163840.0);
}

}  // namespace
}  // namespace lily::testing
