// Risk: the answers of the whole engine get worse unnoticed. A few tasks of each kind, quickly.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/suite_bars.hpp"

namespace lily::testing {
namespace {

// Few tasks may fall short of a bar by chance: by two standard deviations and a task.
double allowed_shortfall(const SuiteBar& bar, int tasks) {
  return 2 * std::sqrt(bar.share * (1 - bar.share) / tasks) + 1.0 / tasks;
}

TEST(SuiteBars, AFewTasksOfEachKind) {
  const auto rows = answer_suite(8, 1);  // CTest runs tests side by side
  int broken = 0;
  int tasks = 0;
  for (const SuiteBar& bar : kSuiteBars) {
    const SuiteRow& row = rows.at(bar.kind);
    EXPECT_GE(row.share(), bar.share - allowed_shortfall(bar, row.tasks))
        << bar.kind << ": " << row.passed << " of " << row.tasks;
    broken += row.broken;
    tasks += row.tasks;
  }
  EXPECT_LE(broken, std::ceil(kMostBroken * tasks));
  EXPECT_EQ(rows.at("off_grammar").broken, kBrokenOffGrammar);
}

}  // namespace
}  // namespace lily::testing
