// `lily eval --suite` and `--text` on the small model.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "cli/program.hpp"
#include "lily/json.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

const std::string kModel = kMini.string();

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.as_object()) names.push_back(name);
  return names;
}

class EvalCommand : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    std::ofstream(path_) << text;
    return path_.string();
  }
  // One right answer, one wrong, and a second right one that a limit of 1 leaves out.
  std::string write_suite() {
    constexpr const char* kTask =
        R"({"kind": "name", "messages": [{"role": "user", "content": "Who are you?"}], "expect": {"contains": "Lily"}})";
    return write(
        std::string(kTask) +
        "\n"
        R"({"kind": "number", "messages": [{"role": "user", "content": "Who are you?"}], "expect": {"json": 7}})"
        "\n" +
        kTask + "\n");
  }
  ~EvalCommand() override { std::filesystem::remove(path_); }

  std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("lily-eval-") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(EvalCommand, SuitePrintsOneObjectAKindAndTheTotal) {
  const Outcome outcome = run_lily({"eval", "--model", kModel, "--suite", write_suite(), "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(outcome.output,
            "{\"kind\":\"name\",\"tasks\":2,\"passed\":2,\"share\":1.0,\"broken\":0}\n"
            "{\"kind\":\"number\",\"tasks\":1,\"passed\":0,\"share\":0.0,\"broken\":0}\n"
            "{\"kind\":\"total\",\"tasks\":3,\"passed\":2,\"share\":0.6666666666666666,\"broken\":0}\n");
}

TEST_F(EvalCommand, SuitePrintsATableAndItsFailuresWhenAsked) {
  const Outcome outcome =
      run_lily({"eval", "--model", kModel, "--suite", write_suite(), "--limit", "1", "--verbose"});
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, "total                 2       1    50.0%       0\n"));
  EXPECT_TRUE(contains(outcome.errors, "number 1: wanted 7\n  answer: I am Lily"));
  EXPECT_FALSE(contains(outcome.errors, "name 1"));
}

TEST_F(EvalCommand, MiniIsTheSuiteBesideTheWeights) {
  const Outcome missing = run_lily({"eval", "--model", kTinyQ4.string(), "--suite", "mini"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_TRUE(contains(missing.errors, (kTinyQ4 / "suite.jsonl").string()));
  EXPECT_TRUE(std::filesystem::exists(kMini / "suite.jsonl"));
}

TEST_F(EvalCommand, TextPrintsPerplexityAloneAndBesideASecondReader) {
  const std::string text = write("<|im_start|>user\nWho are you?<|im_end|>\n");
  const Outcome alone = run_lily({"eval", "--model", kModel, "--text", text, "--window", "5", "--json"});
  ASSERT_EQ(alone.status, 0) << alone.errors;
  const Json row = Json::parse(alone.output);
  EXPECT_EQ(keys(row),
            (std::vector<std::string>{"windows", "tokens", "predicted", "bytes_per_token", "perplexity",
                                      "against_perplexity", "perplexity_ratio", "top1", "kl"}));
  EXPECT_EQ(*row.find("tokens")->as_integer(),
            *row.find("predicted")->as_integer() + *row.find("windows")->as_integer());
  EXPECT_GT(*row.find("windows")->as_integer(), 1);
  EXPECT_TRUE(row.find("top1")->is_null());

  const Outcome table = run_lily(
      {"eval", "--model", kModel, "--text", text, "--against", kModel, "--against-backend", "reference"});
  ASSERT_EQ(table.status, 0) << table.errors;
  EXPECT_TRUE(contains(table.output, "in 1 window; perplexity "));
  EXPECT_TRUE(contains(table.output, "top-1 1.0000"));
}

TEST_F(EvalCommand, RefusesWhatWouldBeIgnored) {
  const auto status = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", "--model", kModel});
    return run_lily(more).status;
  };
  EXPECT_EQ(status({}), 2);
  EXPECT_EQ(status({"--text", "x", "--suite", "mini"}), 2);
  EXPECT_EQ(status({"--golden", "x", "--limit", "3"}), 2);
  EXPECT_EQ(status({"--text", "x", "--verbose"}), 2);
  EXPECT_EQ(status({"--suite", "mini", "--window", "9"}), 2);
  EXPECT_EQ(status({"--text", "x", "--against-backend", "cpu"}), 2);
  EXPECT_EQ(status({"--text", "x", "--against-activations", "exact"}), 2);
  EXPECT_EQ(status({"--text", "x", "--window", "1"}), 2);
}

}  // namespace
}  // namespace lily::testing
