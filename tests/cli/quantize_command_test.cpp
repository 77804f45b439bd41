// `lily quantize`: from bf16 to a checkpoint that evaluates like the one MLX's converter made.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/program.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

class QuantizeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::path(::testing::TempDir()) /
        (std::string("lily_quantize_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Outcome quantize(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"quantize", "--model", kTinyBf16.string(), "--out",
                                          folder_.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lily(arguments);
  }

  std::filesystem::path folder_;
};

TEST_F(QuantizeCommand, result_evaluates_like_the_converters) {
  const Outcome made = quantize();
  ASSERT_EQ(made.status, 0) << made.errors;
  EXPECT_EQ(made.output, folder_.string() + "\n");
  EXPECT_EQ(made.errors, "182 tensors, 3.8 MB\n");
  const auto evaluation = [](const std::string& model) {
    return run_lily({"eval", "--model", model, "--golden", kGoldenQ4.string(), "--json"});
  };
  const Outcome outcome = evaluation(folder_.string());
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_TRUE(contains(outcome.output, "\"greedy\""));
  EXPECT_EQ(outcome.output, evaluation(kTinyQ4.string()).output);
}

TEST_F(QuantizeCommand, options_reach_the_result) {
  const Outcome made = quantize({"--bits", "8", "--group-size", "32"});
  ASSERT_EQ(made.status, 0) << made.errors;
  const Outcome info = run_lily({"info", "--model", folder_.string()});
  EXPECT_EQ(info.status, 0) << info.errors;
  EXPECT_TRUE(contains(info.output, "8 bit, groups of 32"));
}

TEST_F(QuantizeCommand, names_the_option_it_refuses) {
  const Outcome outcome = quantize({"--bits", "3"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(contains(outcome.errors, "--bits"));
  const Outcome group = quantize({"--group-size", "16"});
  EXPECT_EQ(group.status, 2);
  EXPECT_TRUE(contains(group.errors, "--group-size"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(QuantizeCommand, refuses_a_quantized_model_and_a_folder_in_use) {
  const Outcome again = run_lily({"quantize", "--model", kTinyQ4.string(), "--out", folder_.string()});
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(contains(again.errors, "quantized already"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
  ASSERT_EQ(quantize().status, 0);
  const Outcome used = quantize();
  EXPECT_EQ(used.status, 1);
  EXPECT_TRUE(contains(used.errors, "not empty"));
  EXPECT_EQ(run_lily({"info", "--model", folder_.string()}).status, 0);
}

}  // namespace
}  // namespace lily::testing
