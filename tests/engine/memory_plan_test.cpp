// Memory is refused with numbers before it is taken.
#include "engine/memory_plan.hpp"

#include <gtest/gtest.h>

#include "base/machine_memory.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"
#include "support/scripted_engine.hpp"

namespace lily::engine {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

MemoryNeeds needs() {
  return {.weights = 10 * kMib,
          .sequence = [](int context) { return std::uint64_t{1024} * context; },
          .scratch = 0};
}

model::Dimensions dims() {
  model::Dimensions dims;
  dims.max_positions = 100000;
  return dims;
}

TEST(MemoryPlan, FitsExactlyOrNamesTheLargestContextThatDoes) {
  const std::uint64_t limit = 11 * kMib;  // leaves 1024 tokens
  for (const int context : {1023, 1024}) EXPECT_NO_THROW(check_plan(needs(), dims(), context, limit));
  const Error error = testing::raised([&] { check_plan(needs(), dims(), 1025, limit); });
  EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  for (const char* part : {"context of 1025", "MiB", "11.0 MiB", "10.0", "is 1024 tokens"}) {
    testing::expect_mentions(error, part);
  }
}

TEST(MemoryPlan, SaysWhenNotEvenTheWeightsFit) {
  const Error error = testing::raised([&] { check_plan(needs(), dims(), 1, 9 * kMib); });
  EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  testing::expect_mentions(error, "no context fits");
}

TEST(MemoryPlan, ContextBeyondTheModelIsRefused) {
  EXPECT_NO_THROW(check_plan(needs(), dims(), 100000, 1024 * kMib));
  const Error error = testing::raised([&] { check_plan(needs(), dims(), 100001, 1024 * kMib); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  testing::expect_mentions(error, "100001");
  testing::expect_mentions(error, "100000");
}

TEST(MemoryPlan, TheDefaultContextIsNeverAboveTheModels) {
  model::Dimensions small;
  small.max_positions = 500;
  EXPECT_EQ(resolve_context(small, 0), 500);
  EXPECT_EQ(resolve_context(dims(), 0), 32768);
  EXPECT_EQ(resolve_context(dims(), 77), 77);
}

TEST(MemoryPlan, TheMachineHasMemory) { EXPECT_GT(machine_memory(), 64 * kMib); }

TEST(MemoryPlan, AnEngineIsRefusedBeforeItsSequenceIsMade) {
  const auto log = std::make_shared<testing::ScriptLog>();
  const Error error = testing::raised([&] {
    testing::make_scripted_engine({.tokens = {1}}, {.context = 4096, .memory_limit = 2 * kMib}, log);
  });
  EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  EXPECT_EQ(log->sequences, 0);
}

TEST(MemoryPlan, ACheckpointIsRefusedByNumbers) {
  EngineOptions options;
  options.model = testing::kTinyQ4;
  options.backend = "reference";
  options.context = 1000000;
  options.memory_limit = 256 * kMib;
  const Error error = testing::raised([&] { Engine::open(options); });
  EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  testing::expect_mentions(error, "context");
  testing::expect_mentions(error, "MiB");
}

}  // namespace
}  // namespace lily::engine
