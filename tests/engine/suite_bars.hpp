// The bars that lily-mini's success must reach, and the suite answered by the CPU backend.
#pragma once

#include <map>
#include <string>

#include "lily/suite.hpp"

namespace lily::testing {

// Smallest share of right answers of a kind over the whole suite, and largest share of broken ones over all
// kinds. The one place where bars stand.
struct SuiteBar {
  const char* kind;
  double share;
};
inline constexpr SuiteBar kSuiteBars[] = {
    {"one_call", 0.55},   {"reply", 0.78},        {"parallel_calls", 0.44}, {"chain", 0.44},
    {"tool_error", 0.52}, {"no_tool_fits", 0.64}, {"fact_absent", 0.76},    {"fact_short", 0.75},
    {"fact_long", 0.65},  {"json", 0.95},         {"arithmetic", 0.40},     {"lists", 0.22},
    {"talk", 0.38},       {"off_grammar", 0.0},
};
inline constexpr double kMostBroken = 0.03;

// The first `limit` tasks of each kind (0: all) by lily-mini; rows by kind.
std::map<std::string, SuiteRow> answer_suite(int limit, int threads);

}  // namespace lily::testing
