// The bars that lily-mini's success must reach, and the suite answered by the CPU backend.
#pragma once

#include <map>
#include <string>

#include "lily/suite.hpp"

namespace lily::testing {

// Smallest share of right answers over the whole suite of a kind. The one place where bars stand.
struct SuiteBar {
  const char* kind;
  double share;
};
inline constexpr SuiteBar kSuiteBars[] = {
    {"one_call", 0.5},   {"reply", 0.5},        {"parallel_calls", 0.4}, {"chain", 0.7},
    {"tool_error", 0.2}, {"no_tool_fits", 0.4}, {"fact_absent", 0.4},    {"fact_short", 0.6},
    {"fact_long", 0.1},  {"json", 0.7},         {"arithmetic", 0.2},     {"lists", 0.1},
    {"talk", 0.2},       {"off_grammar", 0.0},
};

// The first `limit` tasks of each kind (0: all) by lily-mini; rows by kind.
std::map<std::string, SuiteRow> answer_suite(int limit, int threads);

}  // namespace lily::testing
