// The suite answered by the CPU backend.
#include "engine/suite_bars.hpp"

#include "lily/engine.hpp"
#include "support/fixtures.hpp"

namespace lily::testing {

std::map<std::string, SuiteRow> answer_suite(int limit, int threads) {
  EngineOptions options;
  options.model = kMini;
  options.backend = "cpu";
  options.threads = threads;
  const auto engine = Engine::open(options);
  std::map<std::string, SuiteRow> rows;
  for (const SuiteRow& row :
       run_suite(*engine, read_suite(kMini / "suite.jsonl"), {.limit = limit}, {}, {})) {
    rows[row.kind] = row;
  }
  return rows;
}

}  // namespace lily::testing
