// Help, version, exit codes and error lines of the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cli/program.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

class EveryCommand : public ::testing::TestWithParam<const char*> {};

TEST_P(EveryCommand, explains_itself_with_an_example) {
  const Outcome outcome = run_lily({GetParam(), "--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_TRUE(contains(outcome.output, "Usage:"));
  EXPECT_TRUE(contains(outcome.output, "Example"));
  EXPECT_TRUE(contains(outcome.output, std::string("lily ") + GetParam()));
  EXPECT_EQ(outcome.errors, "");
}

TEST_P(EveryCommand, refuses_an_unknown_option_with_status_2) {
  const Outcome outcome = run_lily({GetParam(), "--no-such-option"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(starts_with(outcome.errors, "lily: error: "));
  EXPECT_EQ(outcome.output, "");
}

TEST_P(EveryCommand, is_listed_in_the_help_of_the_program) {
  EXPECT_TRUE(contains(run_lily({"--help"}).output, std::string("\n  ") + GetParam() + " "));
}

INSTANTIATE_TEST_SUITE_P(Program, EveryCommand,
                         ::testing::Values("serve", "chat", "run", "info", "bench", "eval", "synth",
                                           "quantize", "tokenize", "render", "parse"),
                         [](const auto& command) { return std::string(command.param); });

TEST(Program, prints_its_version) {
  const Outcome outcome = run_lily({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "lily " LILY_VERSION "\n");
}

TEST(Program, needs_a_command) {
  const Outcome outcome = run_lily({});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(starts_with(outcome.errors, "lily: error: "));
}

TEST(Program, names_the_option_and_the_value_it_refuses) {
  const Outcome outcome = run_lily({"bench", "--model", "x", "--kv", "int3"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_TRUE(contains(outcome.errors, "--kv"));
  EXPECT_TRUE(contains(outcome.errors, "int3"));
}

TEST(Program, reports_a_failure_in_one_line_with_status_1) {
  for (const char* command : {"info", "run", "render"}) {
    std::vector<std::string> arguments = {command, "--model", "/nowhere/at/all"};
    if (std::string(command) == "run") arguments.emplace_back("Hello");
    const Outcome outcome = run_lily(arguments, R"({"messages": []})");
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_TRUE(starts_with(outcome.errors, "lily: error: ")) << command;
    EXPECT_TRUE(contains(outcome.errors, "/nowhere/at/all")) << command;
    EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
    EXPECT_EQ(outcome.output, "") << command;
  }
}

TEST(Program, reports_a_backend_that_does_not_exist) {
  const Outcome outcome = run_lily({"run", "--model", kMini.string(), "--backend", "abacus", "Hello"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.errors, "abacus"));
}

}  // namespace
}  // namespace lily::testing
