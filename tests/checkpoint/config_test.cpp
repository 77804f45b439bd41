// config.json and generation_config.json: what is accepted, and that every refusal names its field.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/config.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

using checkpoint::Config;
using checkpoint::GenerationDefaults;

std::string config_error(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder.path() / "config.json", text);
  try {
    checkpoint::read_config(folder.path());
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// The official configuration with one member replaced.
std::string official_with(const std::string& path, const std::string& value) {
  EditedCheckpoint checkpoint;
  checkpoint.config = Json::parse(read_file(kData / "qwen3.6-35b-a3b-config.json"));
  checkpoint.patch_config(path, Json::parse(value));
  return checkpoint.config.dump();
}

std::string official_without(const std::string& object, const std::string& name) {
  Json config = Json::parse(read_file(kData / "qwen3.6-35b-a3b-config.json"));
  for (auto& [key, value] : config.as_object()) {
    if (key != object) continue;
    std::erase_if(value.as_object(), [&](const Json::Member& member) { return member.first == name; });
  }
  return config.dump();
}

TEST(Config, OfficialFileIsReadCompletely) {
  const TemporaryFolder folder;
  write_file(folder.path() / "config.json", read_file(kData / "qwen3.6-35b-a3b-config.json"));
  const Config config = checkpoint::read_config(folder.path());
  const model::Dimensions& dims = config.dimensions;
  EXPECT_FALSE(config.quantization);
  EXPECT_EQ(dims.hidden_size, 2048);
  EXPECT_EQ(dims.vocabulary, 248320);
  EXPECT_EQ(dims.max_positions, 262144);
  EXPECT_EQ(dims.rms_norm_eps, 1e-6);
  EXPECT_EQ(dims.layer_count(), 40);
  EXPECT_EQ(dims.attention_layers(), 10);
  EXPECT_EQ(dims.layers[3], model::LayerKind::attention);
  EXPECT_EQ(dims.layers[4], model::LayerKind::delta_net);
  EXPECT_EQ(dims.attention_heads, 16);
  EXPECT_EQ(dims.kv_heads, 2);
  EXPECT_EQ(dims.head_dim, 256);
  EXPECT_EQ(dims.rotary_dim, 64);
  EXPECT_EQ(dims.rope_theta, 1e7);
  EXPECT_EQ(dims.key_heads, 16);
  EXPECT_EQ(dims.value_heads, 32);
  EXPECT_EQ(dims.key_dim, 128);
  EXPECT_EQ(dims.value_dim, 128);
  EXPECT_EQ(dims.conv_kernel, 4);
  EXPECT_EQ(dims.experts, 256);
  EXPECT_EQ(dims.experts_per_token, 8);
  EXPECT_EQ(dims.expert_size, 512);
  EXPECT_EQ(dims.shared_expert_size, 512);
}

TEST(Config, QuantizationOfTheTinyModel) {
  const Config config = checkpoint::read_config(kTinyQ4);
  ASSERT_TRUE(config.quantization);
  EXPECT_EQ(config.quantization->global.bits, 4);
  EXPECT_EQ(config.quantization->global.group_size, 64);
  EXPECT_EQ(config.quantization->overrides.size(), 8U);
  EXPECT_EQ(config.quantization->overrides.at("model.layers.2.mlp.gate")->bits, 8);
}

TEST(Config, TextOnlyExportHasItsFieldsAtTheTop) {
  const TemporaryFolder folder;
  Json text = *Json::parse(read_file(kData / "qwen3.6-35b-a3b-config.json")).find("text_config");
  text.set("architectures", Json::array({Json::string("Qwen3_5MoeForCausalLM")}));
  write_file(folder.path() / "config.json", text.dump());
  EXPECT_EQ(checkpoint::read_config(folder.path()).dimensions.experts, 256);
}

TEST(Config, LayerKindsFollowFromTheIntervalAlone) {
  const TemporaryFolder folder;
  write_file(folder.path() / "config.json", official_without("text_config", "layer_types"));
  EXPECT_EQ(checkpoint::read_config(folder.path()).dimensions.attention_layers(), 10);
}

struct Refusal {
  const char* name;
  const char* path;
  const char* value;
  const char* found;  // must be in the message beside the field's name
};

class Refusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(Refusals, NameFieldAndValue) {
  const Refusal& refusal = GetParam();
  const std::string field = std::string(refusal.path).substr(std::string(refusal.path).rfind('.') + 1);
  EXPECT_TRUE(contains(config_error(official_with(refusal.path, refusal.value)),
                       {"config.json", field, refusal.found}));
}

INSTANTIATE_TEST_SUITE_P(
    Fields, Refusals,
    ::testing::Values(
        Refusal{"Family", "model_type", R"("qwen3_next")", "qwen3_next"},
        Refusal{"Architecture", "architectures", R"(["Qwen3MoeForCausalLM"])", "Qwen3MoeForCausalLM"},
        Refusal{"NoArchitecture", "architectures", "[]", "supported"},
        Refusal{"ArchitectureIsNoName", "architectures", "[5]", "5"},
        Refusal{"TextFamily", "text_config.model_type", R"("qwen3_5_text")", "qwen3_5_text"},
        Refusal{"TextConfigIsNoObject", "text_config", "[1]", "array"},
        Refusal{"Activation", "text_config.hidden_act", R"("gelu")", "gelu"},
        Refusal{"Bias", "text_config.attention_bias", "true", "true"},
        Refusal{"NoGate", "text_config.attn_output_gate", "false", "false"},
        Refusal{"Tied", "text_config.tie_word_embeddings", "true", "true"},
        Refusal{"TiedAtTop", "tie_word_embeddings", "true", "true"},
        Refusal{"TopKNotNormalized", "text_config.norm_topk_prob", "false", "false"},
        Refusal{"DenseLayers", "text_config.mlp_only_layers", "[3]", "not empty"},
        Refusal{"SparseStep", "text_config.decoder_sparse_step", "2", "not 1"},
        Refusal{"RopeType", "text_config.rope_parameters.rope_type", R"("yarn")", "yarn"},
        Refusal{"RopeScaling", "text_config.rope_scaling", R"({"type":"linear","factor":2})", "linear"},
        Refusal{"NoTheta", "text_config.rope_parameters.rope_theta", "null", "missing"},
        Refusal{"ThetaText", "text_config.rope_parameters.rope_theta", R"("1e7")", "1e7"},
        Refusal{"ThetasDisagree", "text_config.rope_theta", "100000", "100000"},
        Refusal{"OddRotation", "text_config.partial_rotary_factor", "0.251", "0.251"},
        Refusal{"HiddenNotInGroups", "text_config.hidden_size", "2000", "2000"},
        Refusal{"HiddenZero", "text_config.hidden_size", "0", "0"},
        Refusal{"HiddenHuge", "text_config.hidden_size", "9223372036854775807", "9223372036854775807"},
        Refusal{"HiddenBeyondIntegers", "text_config.hidden_size", "1e300", "1e300"},
        Refusal{"HiddenNegative", "text_config.hidden_size", "-2048", "-2048"},
        Refusal{"HiddenFraction", "text_config.hidden_size", "2048.0", "integer"},
        Refusal{"NoHidden", "text_config.hidden_size", "null", "missing"},
        Refusal{"ExpertNotInGroups", "text_config.moe_intermediate_size", "500", "500"},
        Refusal{"SharedNotInGroups", "text_config.shared_expert_intermediate_size", "32", "32"},
        Refusal{"MoreExpertsThanThere", "text_config.num_experts_per_tok", "257", "257"},
        Refusal{"NoExpertPerToken", "text_config.num_experts_per_tok", "0", "0"},
        Refusal{"HeadsDoNotDivide", "text_config.num_key_value_heads", "3", "num_attention_heads is 16"},
        Refusal{"DeltaHeadsDoNotDivide", "text_config.linear_num_key_heads", "5",
                "linear_num_value_heads is 32"},
        Refusal{"Vocabulary", "text_config.vocab_size", "0", "0"},
        Refusal{"VocabularyHuge", "text_config.vocab_size", "2000000000", "2000000000"},
        Refusal{"Kernel", "text_config.linear_conv_kernel_dim", "1", "1"},
        Refusal{"Epsilon", "text_config.rms_norm_eps", "0", "0"},
        Refusal{"Positions", "text_config.max_position_embeddings", "-1", "-1"},
        Refusal{"LayerCount", "text_config.num_hidden_layers", "41", "num_hidden_layers is 41"},
        Refusal{"LayerType", "text_config.layer_types", R"(["sliding_attention"])", "1 entries"},
        Refusal{"IntervalContradicts", "text_config.full_attention_interval", "5", "layer_types contradicts"},
        Refusal{"OtherQuantizer", "quantization_config", R"({"quant_method":"fp8"})", "fp8"},
        Refusal{"ThreeBits", "quantization", R"({"bits":3,"group_size":64})", "4 and 8"},
        Refusal{"GroupOf16", "quantization", R"({"bits":4,"group_size":16})", "32, 64 and 128"},
        Refusal{"NoGroup", "quantization", R"({"bits":4})", "group_size is missing"},
        Refusal{"OtherMode", "quantization", R"({"bits":4,"group_size":32,"mode":"mxfp4"})", "mxfp4"},
        Refusal{"BadOverride", "quantization",
                R"({"bits":4,"group_size":64,"lm_head":{"bits":5,"group_size":64}})", "lm_head"},
        Refusal{"TwoSpellings", "quantization",
                R"({"bits":4,"group_size":64,"model.layers.0.mlp.gate":{"bits":8,"group_size":64},)"
                R"("language_model.model.layers.0.mlp.gate":{"bits":4,"group_size":64}})",
                "contradicts"}),
    [](const auto& test) { return test.param.name; });

TEST(Config, LayerTypesWithAForeignEntry) {
  Json types =
      *Json::parse(read_file(kData / "qwen3.6-35b-a3b-config.json")).find("text_config")->find("layer_types");
  types.as_array()[7] = Json::string("sliding_attention");
  EXPECT_TRUE(contains(config_error(official_with("text_config.layer_types", types.dump())),
                       {"layer_types", "sliding_attention"}));
}

TEST(Config, WithoutAnyLayerDescription) {
  Json config = Json::parse(official_without("text_config", "layer_types"));
  for (auto& [key, value] : config.as_object()) {
    if (key == "text_config") value.set("full_attention_interval", Json());
  }
  EXPECT_TRUE(contains(config_error(config.dump()), {"layer_types", "missing"}));
}

TEST(Config, TextThatIsNoJson) {
  for (const char* const text : {"", "{", "[]", "null", "\xff\xfe", "{\"model_type\": 3}"}) {
    EXPECT_TRUE(contains(config_error(text), "config.json")) << text;
  }
  EXPECT_TRUE(contains(config_error(std::string(100000, '[')), "config.json"));
}

// Any cut of a real configuration ends in an Error that names the file.
TEST(Config, EveryTruncationIsAnError) {
  const std::string text = read_file(kTinyQ4 / "config.json");
  for (std::size_t length = 0; length < text.size(); length += 7) {
    EXPECT_TRUE(contains(config_error(text.substr(0, length)), "config.json")) << length;
  }
}

GenerationDefaults generation(const std::string& text) {
  const TemporaryFolder folder;
  write_file(folder.path() / "generation_config.json", text);
  return checkpoint::read_generation_defaults(folder.path());
}

TEST(Generation, OfficialFile) {
  const GenerationDefaults defaults = generation(read_file(kData / "qwen3.6-generation_config.json"));
  EXPECT_EQ(defaults.eos_token_ids, (std::vector<int>{248046, 248044}));
  EXPECT_EQ(defaults.do_sample, true);
  EXPECT_EQ(defaults.temperature, 1.0F);
  EXPECT_EQ(defaults.top_k, 20);
  EXPECT_EQ(defaults.top_p, 0.95F);
  EXPECT_FALSE(defaults.min_p);
  EXPECT_FALSE(defaults.repetition_penalty);
}

TEST(Generation, AbsentFileAndNullMembersAreUnset) {
  const TemporaryFolder folder;
  EXPECT_TRUE(checkpoint::read_generation_defaults(folder.path()).eos_token_ids.empty());
  const GenerationDefaults defaults =
      generation(R"({"eos_token_id": 7, "temperature": null, "future_field": {}})");
  EXPECT_EQ(defaults.eos_token_ids, std::vector<int>{7});
  EXPECT_FALSE(defaults.temperature);
}

TEST(Generation, WrongValuesAreNamed) {
  for (const auto& [field, value] :
       {std::pair("eos_token_id", "-1"), std::pair("eos_token_id", "[3, \"x\"]"),
        std::pair("eos_token_id", "99999999999"), std::pair("temperature", "-0.5"),
        std::pair("temperature", "\"hot\""), std::pair("top_p", "1.5"), std::pair("top_k", "-1"),
        std::pair("top_k", "2.5"), std::pair("min_p", "2"), std::pair("repetition_penalty", "0"),
        std::pair("do_sample", "1")}) {
    try {
      generation(fmt::format(R"({{"{}": {}}})", field, value));
      ADD_FAILURE() << field << " " << value;
    } catch (const Error& error) {
      EXPECT_TRUE(contains(error.what(), {"generation_config.json", field}));
    }
  }
}

}  // namespace
}  // namespace lily::testing
