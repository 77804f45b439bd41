// The loading cases of cases.jsonl: damaged, foreign and unusual checkpoints, each made from the tiny model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

namespace fs = std::filesystem;

// Cases of the kind `loader` that other groups hold: chat template, snapshots, memory plan, converted cache.
const std::set<std::string> kElsewhere = {"TPL-06", "CAC-10", "CAC-10.b", "MEM-01", "LOD-07"};

struct LoaderCase {
  std::string id;
  Json input;
  Json expect;
};

std::vector<LoaderCase> loader_cases() {
  std::vector<LoaderCase> cases;
  std::istringstream lines(read_file(kData / "cases.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    const std::string id = json.find("id")->as_string();
    if (json.find("kind")->as_string() != "loader" || kElsewhere.contains(id)) continue;
    cases.push_back({id, *json.find("input"), *json.find("expect")});
  }
  return cases;
}

void add_tensor(EditedCheckpoint& checkpoint, const std::string& name) {
  checkpoint.tensors[name] = {"BF16", {4, 8}, std::string(64, '\0')};
}

// "model.norm.weight" of a case is whatever name the checkpoint has for it.
std::string spelled(const EditedCheckpoint& checkpoint, const std::string& name) {
  if (checkpoint.tensors.contains(name)) return name;
  return "language_model." + name;
}

// The names a mutation may have, with what they do to the checkpoint before and after it is written.
void mutate_and_save(EditedCheckpoint& checkpoint, const std::string& mutation, const fs::path& folder) {
  const std::string q_proj = "language_model.model.layers.3.self_attn.q_proj";
  std::map<std::string, std::string> map_patch;
  if (mutation == "weight_map_points_to_wrong_shard") {
    const int shard = checkpoint.shard_of.at(q_proj + ".weight");
    map_patch[q_proj + ".weight"] = fmt::format("model-{:05}-of-00002.safetensors", 3 - shard);
  } else if (mutation == "scales_wrong_cols") {
    EditedTensor& scales = checkpoint.tensors.at(q_proj + ".scales");
    scales.shape.back() *= 2;
    scales.shape.front() /= 2;
  } else if (mutation == "dtype=F64") {
    EditedTensor& tensor = checkpoint.tensors.at("language_model.model.norm.weight");
    tensor = {"F64", tensor.shape, std::string(tensor.data.size() * 4, '\0')};
  } else if (mutation != "delete_shard_2") {
    FAIL() << "unknown mutation " << mutation;
  }
  checkpoint.save(folder, 2, map_patch);
  if (mutation == "delete_shard_2") fs::remove(folder / "model-00002-of-00002.safetensors");
}

// Moves every 8-bit override to the spelling without "language_model.", as some converters write it.
void strip_override_prefixes(EditedCheckpoint& checkpoint) {
  constexpr std::string_view kPrefix = "language_model.";
  for (auto& [name, member] : checkpoint.config.as_object()) {
    if (name != "quantization") continue;
    for (auto& [path, value] : member.as_object()) {
      if (path.starts_with(kPrefix)) path = path.substr(kPrefix.size());
    }
  }
}

void apply_config_patch(EditedCheckpoint& checkpoint, const Json& patch) {
  for (const auto& [path, value] : patch.as_object()) {
    if (path == "quantization" && value.is_object()) {
      // The case describes one override; the tiny checkpoint has eight modules of 8 bits.
      strip_override_prefixes(checkpoint);
      for (const auto& [member, content] : value.as_object()) {
        for (auto& [name, quantization] : checkpoint.config.as_object()) {
          if (name == "quantization") quantization.set(member, content);
        }
      }
    } else {
      checkpoint.patch_config(path, value);
    }
  }
}

const std::vector<std::string> kShiftedNorms = {"input_layernorm.weight", "post_attention_layernorm.weight",
                                                "model.norm.weight", "q_norm.weight", "k_norm.weight"};

bool is_shifted_norm(const std::string& name) {
  return std::any_of(kShiftedNorms.begin(), kShiftedNorms.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

// The raw model with norms rounded to 1/64, so that 1 + w is exact in bf16 and layouts can agree bit for bit.
EditedCheckpoint raw_model() {
  EditedCheckpoint raw = EditedCheckpoint::load(kTinyBf16);
  for (const auto& [name, tensor] : raw.tensors) {
    if (!is_shifted_norm(name) && !name.ends_with("language_model.norm.weight")) continue;
    std::vector<float> values = raw.values(name);
    for (float& value : values) value = std::round(value * 64) / 64;
    raw.set_values(name, values);
  }
  return raw;
}

// What mlx_lm.convert does without quantizing: new names, experts in three, conv axes swapped, norms + 1.
EditedCheckpoint converted(const EditedCheckpoint& raw, bool shift_norms) {
  EditedCheckpoint result;
  result.config = raw.config;
  for (const auto& [name, tensor] : raw.tensors) {
    constexpr std::string_view kPrefix = "model.language_model.";
    std::string renamed = name.starts_with(kPrefix) ? "language_model.model." + name.substr(kPrefix.size())
                                                    : "language_model." + name;
    EditedTensor moved = tensor;
    const std::size_t experts = renamed.find("experts.");
    if (renamed.ends_with("experts.gate_up_proj")) {
      const std::size_t block = moved.data.size() / static_cast<std::size_t>(moved.shape[0]);
      moved.shape[1] /= 2;
      for (const auto& [part, offset] :
           {std::pair("gate_proj", std::size_t{0}), std::pair("up_proj", block / 2)}) {
        EditedTensor half = moved;
        half.data.clear();
        for (std::size_t i = 0; i < tensor.data.size(); i += block)
          half.data += tensor.data.substr(i + offset, block / 2);
        result.tensors[renamed.substr(0, experts) + "switch_mlp." + part + ".weight"] = half;
      }
      continue;
    }
    if (renamed.ends_with("experts.down_proj"))
      renamed = renamed.substr(0, experts) + "switch_mlp.down_proj.weight";
    if (renamed.ends_with("conv1d.weight")) std::swap(moved.shape[1], moved.shape[2]);
    result.tensors[renamed] = moved;
    if (shift_norms && is_shifted_norm(renamed)) {
      std::vector<float> values = result.values(renamed);
      for (float& value : values) value += 1;
      result.set_values(renamed, values);
    }
  }
  return result;
}

EditedCheckpoint variant(const std::string& name) {
  const EditedCheckpoint raw = raw_model();
  EditedCheckpoint result =
      name.starts_with("raw") ? raw : converted(raw, name != "converted_with_raw_norms");
  if (name.ends_with("+mtp")) add_tensor(result, "mtp.fc.weight");
  return result;
}

// Everything a forward pass can read, in one list of numbers.
std::vector<float> all_values(const checkpoint::Checkpoint& checkpoint) {
  std::vector<float> values;
  const auto add_vector = [&](const std::vector<float>& vector) {
    values.insert(values.end(), vector.begin(), vector.end());
  };
  const auto add_matrix = [&](const checkpoint::Matrix& matrix) {
    std::vector<float> row(static_cast<std::size_t>(matrix.columns));
    for (int expert = 0; expert < matrix.experts; ++expert) {
      for (std::int64_t i = 0; i < matrix.rows; ++i) {
        checkpoint::decode_row(checkpoint, matrix, expert, i, row);
        add_vector(row);
      }
    }
  };
  add_matrix(checkpoint.embedding());
  add_matrix(checkpoint.head());
  add_vector(checkpoint.final_norm());
  for (const checkpoint::Layer& layer : checkpoint.layers()) {
    add_vector(layer.input_norm);
    add_vector(layer.post_attention_norm);
    if (layer.attention) {
      for (const auto* matrix : {&layer.attention->q_proj, &layer.attention->k_proj, &layer.attention->v_proj,
                                 &layer.attention->o_proj}) {
        add_matrix(*matrix);
      }
      add_vector(layer.attention->q_norm);
      add_vector(layer.attention->k_norm);
    }
    if (layer.delta_net) {
      const checkpoint::DeltaNet& net = *layer.delta_net;
      for (const auto* matrix :
           {&net.in_proj_qkv, &net.in_proj_z, &net.in_proj_b, &net.in_proj_a, &net.out_proj}) {
        add_matrix(*matrix);
      }
      for (const auto* vector : {&net.convolution, &net.a_log, &net.dt_bias, &net.norm}) add_vector(*vector);
    }
    const checkpoint::MixtureOfExperts& moe = layer.moe;
    for (const auto* matrix :
         {&moe.router, &moe.gate_proj, &moe.up_proj, &moe.down_proj, &moe.shared_gate_proj,
          &moe.shared_up_proj, &moe.shared_down_proj, &moe.shared_expert_gate}) {
      add_matrix(*matrix);
    }
  }
  return values;
}

// The checkpoint folder that a case describes.
fs::path build(const LoaderCase& test, const fs::path& folder) {
  if (const Json* const path = test.input.find("path")) return path->as_string();
  if (const Json* const variants = test.input.find("variants")) {
    variant(variants->as_array().front().as_string()).save(folder, 1);
    return folder;
  }
  EditedCheckpoint checkpoint = EditedCheckpoint::load(kTinyQ4);
  if (const Json* const patch = test.input.find("config_patch")) apply_config_patch(checkpoint, *patch);
  if (const Json* const names = test.input.find("add_tensors")) {
    for (const Json& name : names->as_array()) add_tensor(checkpoint, name.as_string());
  }
  if (const Json* const names = test.input.find("remove_tensors")) {
    for (const Json& name : names->as_array()) {
      EXPECT_EQ(checkpoint.tensors.erase(spelled(checkpoint, name.as_string())), 1U) << name.as_string();
    }
  }
  if (const Json* const mutation = test.input.find("mutate")) {
    mutate_and_save(checkpoint, mutation->as_string(), folder);
  } else {
    checkpoint.save(folder);
  }
  if (const Json* const files = test.input.find("files")) {
    for (const auto& [name, text] : files->as_object()) write_file(folder / name, text.as_string());
  }
  return folder;
}

class LoaderCases : public ::testing::TestWithParam<LoaderCase> {};

TEST_P(LoaderCases, Holds) {
  const TemporaryFolder folder;
  const fs::path path = build(GetParam(), folder.path());
  const auto start = std::chrono::steady_clock::now();
  const std::string error = open_error(path);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;

  const Json& expect = GetParam().expect;
  EXPECT_EQ(error.empty(), expect.find("ok")->as_boolean()) << error;
  if (const Json* const parts = expect.find("error_contains")) {
    for (const Json& part : parts->as_array()) EXPECT_TRUE(contains(error, part.as_string()));
  }
  if (const Json* const limit = expect.find("max_ms")) {
    EXPECT_LE(elapsed.count(), limit->as_double());
  }
  if (const Json* const parts = expect.find("log_contains")) {
    const auto checkpoint = checkpoint::Checkpoint::open(path);
    ASSERT_EQ(checkpoint->proof().notes.size(), 1U);
    for (const Json& part : parts->as_array()) {
      EXPECT_TRUE(contains(checkpoint->proof().notes[0], part.as_string()));
    }
    EXPECT_EQ(checkpoint->proof().skipped, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, LoaderCases, ::testing::ValuesIn(loader_cases()), [](const auto& test) {
  std::string name = test.param.id;
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
});

// LOD-03 asks for equal logits; equal weights give them.
TEST(LayoutVariants, GiveTheSameWeights) {
  std::vector<float> first;
  for (const std::string name : {"raw", "raw+mtp", "converted", "converted+mtp"}) {
    const TemporaryFolder folder;
    variant(name).save(folder.path(), 1);
    const auto checkpoint = checkpoint::Checkpoint::open(folder.path());
    EXPECT_EQ(checkpoint->layout() == model::Layout::hugging_face, name.starts_with("raw"));
    const std::vector<float> values = all_values(*checkpoint);
    if (first.empty()) first = values;
    ASSERT_EQ(values, first) << name;
  }
}

// The other half of LOD-03: norms shifted already, in a file that looks raw.
TEST(LayoutVariants, RawLayoutWithConvertedNormsIsRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint = raw_model();
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!is_shifted_norm(name) && !name.ends_with("language_model.norm.weight")) continue;
    std::vector<float> values = checkpoint.values(name);
    for (float& value : values) value += 1;
    checkpoint.set_values(name, values);
  }
  checkpoint.save(folder.path(), 1);
  EXPECT_TRUE(contains(open_error(folder.path()), "norm"));
}

// LOD-04: the three spellings of the text model's prefix.
TEST(LayoutVariants, PrefixSpellingsMapToOneName) {
  const std::vector<float> expected = all_values(*checkpoint::Checkpoint::open(kTinyQ4));
  for (const auto& [text_prefix, head] :
       {std::pair("model.", "lm_head."), std::pair("model.language_model.", "lm_head.")}) {
    EditedCheckpoint renamed = EditedCheckpoint::load(kTinyQ4);
    std::map<std::string, EditedTensor> tensors;
    for (auto& [name, tensor] : renamed.tensors) {
      constexpr std::string_view kText = "language_model.model.";
      constexpr std::string_view kHead = "language_model.lm_head.";
      tensors[name.starts_with(kText) ? text_prefix + name.substr(kText.size())
                                      : head + name.substr(kHead.size())] = tensor;
    }
    renamed.tensors = std::move(tensors);
    const TemporaryFolder folder;
    renamed.save(folder.path(), 1);
    EXPECT_EQ(all_values(*checkpoint::Checkpoint::open(folder.path())), expected) << text_prefix;
  }
}

TEST(LayoutVariants, OneTensorUnderTwoSpellingsIsRefused) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint = EditedCheckpoint::load(kTinyQ4);
  checkpoint.tensors["model.norm.weight"] = checkpoint.tensors.at("language_model.model.norm.weight");
  checkpoint.save(folder.path(), 1);
  EXPECT_TRUE(contains(open_error(folder.path()), "twice"));
}

}  // namespace
}  // namespace lily::testing
