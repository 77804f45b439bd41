// `lily info`, `synth`, `bench`, `eval`, `run` and `chat` on small checkpoints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/edited_checkpoint.hpp"
#include "cli/program.hpp"
#include "lily/json.hpp"
#include "support/fixtures.hpp"

namespace lily::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StrEq;

const std::string kModel = kMini.string();

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.as_object()) names.push_back(name);
  return names;
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) values.push_back(Json::parse(line));
  return values;
}

TEST(Info, shows_architecture_proof_plan_and_machine) {
  const Outcome outcome = run_lily({"info", "--model", kModel});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  for (const char* part : {"lily-mini (qwen3_5_moe)", "num_experts ", "proved", "memory at context", "fits",
                           "one decode step moves", "instruction set"}) {
    EXPECT_THAT(outcome.output, HasSubstr(part));
  }
}

TEST(Info, a_name_in_a_file_sends_nothing_to_the_terminal) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint = EditedCheckpoint::load(kTinyQ4);
  checkpoint.tensors["\x1b]0;title\x07"] = {"BF16", {1}, std::string(2, '\0')};
  checkpoint.save(folder.path());
  const Outcome outcome = run_lily({"info", "--model", folder.path().string()});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("tensors are unknown: \xef\xbf\xbd]0;title\xef\xbf\xbd"));
}

TEST(Info, refuses_what_every_command_refuses) {
  const TemporaryFolder folder;
  const std::string model = (folder.path() / "model").string();
  const auto expect_refused = [&](const char* file, const std::string& text, const char* message) {
    std::filesystem::remove_all(model);
    std::filesystem::copy(kTinyQ4, model);
    write_file(std::filesystem::path(model) / file, text);
    for (const Outcome& outcome :
         {run_lily({"info", "--model", model}), run_lily({"run", "--model", model, "Hi"})}) {
      EXPECT_EQ(outcome.status, 1);
      EXPECT_THAT(outcome.errors, HasSubstr(message));
    }
  };
  expect_refused("generation_config.json", R"({"top_p": 2})", "generation_config.json: top_p is 2");
  Json tokenizer = Json::parse(read_file(kTinyQ4 / "tokenizer.json"));
  for (auto& [name, tokens] : tokenizer.as_object()) {
    if (name != "added_tokens") continue;
    tokens.as_array().push_back(
        Json::object({{"id", Json::integer(512)}, {"content", Json::string("<|one_too_many|>")}}));
  }
  expect_refused("tokenizer.json", tokenizer.dump(),
                 "the tokenizer has ids up to 512; the model has 512 rows");
}

TEST(Info, json_holds_numbers_that_add_up) {
  const Outcome outcome = run_lily({"info", "--model", kModel, "--context", "1000", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json info = Json::parse(outcome.output);
  EXPECT_THAT(keys(info), ElementsAre("model_id", "architecture", "vocabulary_size", "dimensions",
                                      "checkpoint", "memory", "step", "machine"));
  EXPECT_EQ(info.find("model_id")->as_string(), "lily-mini");
  EXPECT_EQ(info.find("dimensions")->find("hidden_size")->as_integer(), 256);
  EXPECT_EQ(info.find("dimensions")->find("num_experts")->as_integer(), 12);
  const Json& memory = *info.find("memory");
  EXPECT_EQ(memory.find("context")->as_integer(), 1000);
  EXPECT_EQ(*memory.find("total_bytes")->as_integer(),
            *memory.find("weight_bytes")->as_integer() + *memory.find("sequence_bytes")->as_integer());
  // The file is these weights and little else.
  EXPECT_NEAR(static_cast<double>(*memory.find("weight_bytes")->as_integer()),
              static_cast<double>(std::filesystem::file_size(kMini / "model.safetensors")), 64e3);
}

TEST(Info, the_backend_decides_the_sequence_and_the_machine) {
  const auto info = [](const char* backend) {
    return run_lily({"info", "--model", kModel, "--backend", backend, "--json"});
  };
  const Json emulator = Json::parse(info("emulator").output), cpu = Json::parse(info("cpu").output);
  EXPECT_EQ(emulator.find("machine")->find("backend")->as_string(), "emulator");
  EXPECT_NE(emulator.find("memory")->find("sequence_bytes")->as_integer(),
            cpu.find("memory")->find("sequence_bytes")->as_integer());
  EXPECT_EQ(cpu.find("memory")->find("activation_bytes")->as_integer(), 0);
  const Outcome cuda = info("cuda");
  if (cuda.status == 0) {
    EXPECT_THAT(Json::parse(cuda.output).find("machine")->find("device")->as_string(), HasSubstr("GPU 0"));
  } else {
    EXPECT_THAT(cuda.errors, HasSubstr("backend cuda: "));
  }
  EXPECT_THAT(info("tpu").errors, HasSubstr("unknown backend 'tpu'"));
}

TEST(Info, kv_format_and_context_decide_the_sequence) {
  const auto sequence_bytes = [](const char* context, const char* kv) {
    const Outcome outcome = run_lily({"info", "--model", kModel, "--context", context, "--kv", kv, "--json"});
    return *Json::parse(outcome.output).find("memory")->find("sequence_bytes")->as_integer();
  };
  // lily-mini: 2 attention layers of 2 KV heads of 256, keys and values. Caches are whole strips of
  // positions.
  constexpr std::int64_t kValuesPerToken = 2 * 2 * 2 * 256;
  // 64 codes and a scale of four bytes.
  EXPECT_EQ(sequence_bytes("3072", "f16") - sequence_bytes("1536", "f16"),
            1536 * 2 * kValuesPerToken * 33 / 32);
  EXPECT_EQ(sequence_bytes("3072", "int8") - sequence_bytes("1536", "int8"),
            1536 * kValuesPerToken * 17 / 16);
}

TEST(Info, activations_on_a_gpu_are_bounded) {
  const auto activation_bytes = [](const char* context) {
    const Outcome outcome =
        run_lily({"info", "--model", kModel, "--backend", "emulator", "--context", context, "--json"});
    return *Json::parse(outcome.output).find("memory")->find("activation_bytes")->as_integer();
  };
  EXPECT_GT(activation_bytes("3072"), 0);
  EXPECT_LT(activation_bytes("16"), activation_bytes("3072"));
  EXPECT_EQ(activation_bytes("1536"), activation_bytes("3072"));
}

TEST(Info, refuses_a_context_beyond_the_models) {
  const Outcome outcome = run_lily({"info", "--model", kModel, "--context", "2000000000"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("2000000000"));
}

TEST(Info, refuses_a_cache_that_the_checkpoints_backend_lacks) {
  const Outcome plain = run_lily({"info", "--model", kTinyBf16.string()});
  EXPECT_EQ(plain.status, 0) << plain.errors;
  EXPECT_THAT(plain.output, HasSubstr("reference"));
  const Outcome outcome = run_lily({"info", "--model", kTinyBf16.string(), "--kv", "int8"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("int8"));
}

class SyntheticTiny : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("lily_cli_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    const Outcome outcome = run_lily({"synth", "--out", folder_.string(), "--preset", "tiny", "--seed", "3"});
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    ASSERT_EQ(outcome.output, folder_.string() + "\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(SyntheticTiny, bench_prints_one_object_a_row_with_the_contracts_keys) {
  const Outcome outcome = run_lily({"bench", "--model", folder_.string(), "--prompt", "16,32", "--depth",
                                    "0,8", "--decode", "4", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::vector<Json> rows = json_lines(outcome.output);
  ASSERT_EQ(rows.size(), 4U);
  for (const Json& row : rows) {
    EXPECT_THAT(keys(row),
                ElementsAre("backend", "prompt_tokens", "depth", "prefill_tok_s", "decode_tok_s",
                            "bytes_per_token", "gb_per_s", "stream_gb_per_s", "int8_tera_ops", "limit_share",
                            "prefill_limit_share", "activations", "kv", "peak_rss_bytes", "digest"));
    EXPECT_GT(row.find("prefill_tok_s")->as_double(), 0);
    EXPECT_GT(row.find("decode_tok_s")->as_double(), 0);
    EXPECT_THAT(row.find("digest")->as_string(), MatchesRegex("[0-9a-f]{16}"));
  }
}

TEST_F(SyntheticTiny, bench_prints_a_table_for_people) {
  const Outcome outcome = run_lily({"bench", "--model", folder_.string(), "--prompt", "16", "--decode", "4"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("decode tok/s"));
  EXPECT_THAT(outcome.output, HasSubstr("GB/s read"));
}

TEST_F(SyntheticTiny, is_not_overwritten) {
  const Outcome outcome = run_lily({"synth", "--out", folder_.string(), "--preset", "tiny"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr(folder_.string()));
}

TEST(Eval, prints_the_contracts_keys_and_agrees_with_the_reference_file) {
  const Outcome outcome = run_lily({"eval", "--model", kModel, "--golden", kGoldenMini.string(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const std::vector<Json> rows = json_lines(outcome.output);
  ASSERT_FALSE(rows.empty());
  for (const Json& row : rows) {
    EXPECT_THAT(keys(row), ElementsAre("entry", "positions", "max_abs_error", "top1", "perplexity_ratio",
                                       "kl", "greedy_equal"));
    EXPECT_GT(row.find("top1")->as_double(), 0.97);
    // Whether a value exists depends on the entry; NaN is never printed.
    EXPECT_THAT(row.find("perplexity_ratio")->kind_name(), ::testing::AnyOf(StrEq("number"), StrEq("null")));
  }
}

TEST(Eval, prints_a_table_for_people) {
  const Outcome outcome = run_lily({"eval", "--model", kModel, "--golden", kGoldenMini.string()});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("perplexity ratio"));
  EXPECT_THAT(outcome.output, HasSubstr("\ngreedy "));
}

TEST(Run, answers_on_standard_output_only) {
  const Outcome outcome = run_lily({"run", "--model", kModel, "--temperature", "0", "Who are you?"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "I am Lily, a small assistant that runs on your own computer.\n");
  EXPECT_EQ(outcome.errors, "");
}

TEST(Run, reads_the_prompt_from_standard_input_and_prints_statistics) {
  const Outcome outcome = run_lily(
      {"run", "--model", kModel, "--temperature", "0", "--no-think", "--stats", "-"}, "Who are you?");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("Lily"));
  EXPECT_THAT(outcome.errors, MatchesRegex("prompt [0-9]+ tokens .*tok/s; answer [0-9]+ tokens .*tok/s\n"));
}

TEST(Run, same_seed_same_answer) {
  const std::vector<std::string> arguments = {
      "run", "--model", kModel, "--temperature", "2", "--seed", "5", "--max-tokens", "24", "--raw", "Hello"};
  const Outcome first = run_lily(arguments);
  EXPECT_EQ(first.status, 0) << first.errors;
  EXPECT_FALSE(first.output.empty());
  EXPECT_EQ(first.output, run_lily(arguments).output);
}

TEST(Run, says_when_the_answer_was_cut) {
  const Outcome outcome =
      run_lily({"run", "--model", kModel, "--max-tokens", "1", "--no-think", "Who are you?"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("cut after 1 tokens"));
}

TEST(Run, refuses_a_sampling_value_out_of_range) {
  const Outcome outcome = run_lily({"run", "--model", kModel, "--temperature", "3", "Who are you?"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("temperature"));
}

TEST(Chat, keeps_a_conversation_until_it_is_reset_or_left) {
  const Outcome outcome =
      run_lily({"chat", "--model", kModel, "--temperature", "0"},
               "/help\nWho are you?\n/nonsense\n/reset\nWhat is \\\nyour name?\n/quit\nHello\n");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("/reset"));
  EXPECT_THAT(outcome.output, HasSubstr("I am Lily"));
  EXPECT_THAT(outcome.output, HasSubstr("A new conversation."));
  EXPECT_THAT(outcome.errors, HasSubstr("/nonsense"));
  EXPECT_THAT(outcome.output, ::testing::Not(HasSubstr("How can I help")));
}

TEST(Chat, goes_on_after_a_turn_that_does_not_fit) {
  std::string long_line = "Read this:";
  for (int i = 0; i < 400; ++i) long_line += " word";
  const Outcome outcome = run_lily({"chat", "--model", kModel, "--temperature", "0", "--context", "256"},
                                   long_line + "\nWho are you?\n");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("/reset begins a new conversation"));
  EXPECT_THAT(outcome.output, HasSubstr("I am Lily"));
}

}  // namespace
}  // namespace lily::testing
