// Risk: the answers of the whole engine get worse unnoticed. The whole suite, with all cores.
#include <gtest/gtest.h>

#include <iterator>

#include "engine/suite_bars.hpp"

namespace lily::testing {
namespace {

TEST(SuiteBarsLong, AllTasks) {
  const auto rows = answer_suite(0, 0);
  EXPECT_EQ(rows.size(), std::size(kSuiteBars));
  for (const SuiteBar& bar : kSuiteBars) {
    const SuiteRow& row = rows.at(bar.kind);
    EXPECT_GE(row.tasks, 200) << bar.kind;
    EXPECT_GE(row.share(), bar.share) << bar.kind << ": " << row.passed << " of " << row.tasks;
    EXPECT_EQ(row.broken, 0) << bar.kind;
  }
}

}  // namespace
}  // namespace lily::testing
