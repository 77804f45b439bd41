// Risk: the suite of tasks does not notice a broken forward pass. Each fault must make its success collapse.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "checkpoint/config.hpp"
#include "engine/assemble.hpp"
#include "lily/suite.hpp"
#include "reference/faults.hpp"
#include "support/fixtures.hpp"
#include "text/text_protocol.hpp"
#include "text/tokenizer.hpp"

namespace lily::testing {
namespace {

constexpr int kThreads = 1;                                     // CTest runs tests side by side
constexpr SuiteOptions kOptions{.limit = 4, .max_tokens = 60};  // the reference is slow
constexpr std::size_t kMostPromptTokens = 460;

std::unique_ptr<Engine> engine_with(Fault fault) {
  engine::EngineParts parts;
  parts.backend = open_faulty_backend(fault, kThreads);
  parts.tokenizer = text::Tokenizer::load_checkpoint(kMini);
  parts.text = text::open_protocol(kMini, parts.tokenizer);
  return engine::make_engine(std::move(parts), {.context = 1024});
}

// Short tasks without reasoning, of kinds that together use all parts of the model.
std::vector<SuiteTask> short_tasks(const Engine& engine) {
  std::vector<SuiteTask> tasks;
  for (SuiteTask& task : read_suite(kMini / "suite.jsonl")) {
    if (task.prompt.enable_thinking) continue;
    if (task.kind != "one_call" && task.kind != "fact_short" && task.kind != "json") continue;
    const RenderedPrompt rendered = engine.text().render(task.prompt);
    if (engine.text().encode(rendered).size() > kMostPromptTokens) continue;
    tasks.push_back(std::move(task));
  }
  return tasks;
}

class FaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  SuiteRow run() {
    const auto engine = engine_with(GetParam());
    SuiteRow all = total(run_suite(*engine, short_tasks(*engine), kOptions, {}, {}));
    RecordProperty("passed", all.passed);
    return all;
  }
};

using NoFault = FaultTest;
using EachFault = FaultTest;

TEST_P(NoFault, MostTasksSucceed) {
  const SuiteRow row = run();
  ASSERT_EQ(row.tasks, 12);
  EXPECT_GE(row.passed, 10);
}

TEST_P(EachFault, LeavesAtMostHalfOfTheTasks) {
  const SuiteRow row = run();
  ASSERT_EQ(row.tasks, 12);
  EXPECT_LE(row.passed, 6);
}

std::string name_of(const ::testing::TestParamInfo<Fault>& of) { return to_string(of.param); }

INSTANTIATE_TEST_SUITE_P(Reference, NoFault, ::testing::Values(Fault::none), name_of);
INSTANTIATE_TEST_SUITE_P(Reference, EachFault,
                         ::testing::Values(Fault::window_lost, Fault::memory_lost, Fault::keys_lost,
                                           Fault::snapshot_without_keys, Fault::experts_swapped),
                         name_of);

}  // namespace
}  // namespace lily::testing
