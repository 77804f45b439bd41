// The bars that lily-mini's success must reach, and the suite answered by the CPU backend.
#pragma once

#include <map>
#include <string>

#include "lily/suite.hpp"

namespace lily::testing {

// Smallest share of right answers of a kind over the whole suite. The one place where bars stand.
struct SuiteBar {
  const char* kind;
  double share;
};
inline constexpr SuiteBar kSuiteBars[] = {
    {"one_call", 0.95},   {"reply", 0.98},        {"parallel_calls", 0.93}, {"chain", 0.95},
    {"tool_error", 0.98}, {"no_tool_fits", 0.98}, {"fact_absent", 0.96},    {"fact_short", 0.95},
    {"fact_long", 0.93},  {"json", 0.95},         {"arithmetic", 0.98},     {"lists", 0.97},
    {"talk", 0.96},       {"off_grammar", 0.95},
};

// Largest share of broken answers over all kinds (no text, cut off, control characters); what a person types
// beyond the model's grammar never gets one.
inline constexpr double kMostBroken = 0.001;
inline constexpr int kBrokenOffGrammar = 0;

// The first `limit` tasks of each kind (0: all) by lily-mini; rows by kind.
std::map<std::string, SuiteRow> answer_suite(int limit, int threads);

}  // namespace lily::testing
