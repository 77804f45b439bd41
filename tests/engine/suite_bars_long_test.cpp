// Risk: the answers of the whole engine get worse unnoticed. The whole suite, with all cores.
#include <gtest/gtest.h>

#include <iterator>

#include "engine/suite_bars.hpp"

namespace lily::testing {
namespace {

TEST(SuiteBarsLong, AllTasks) {
  const auto rows = answer_suite(0, 0);
  EXPECT_EQ(rows.size(), std::size(kSuiteBars));
  int broken = 0;
  int tasks = 0;
  for (const SuiteBar& bar : kSuiteBars) {
    const SuiteRow& row = rows.at(bar.kind);
    EXPECT_GE(row.tasks, 200) << bar.kind;
    EXPECT_GE(row.share(), bar.share) << bar.kind << ": " << row.passed << " of " << row.tasks;
    broken += row.broken;
    tasks += row.tasks;
  }
  EXPECT_LE(broken, kMostBroken * tasks);
  EXPECT_EQ(rows.at("off_grammar").broken, kBrokenOffGrammar);
}

}  // namespace
}  // namespace lily::testing
