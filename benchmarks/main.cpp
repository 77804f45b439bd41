// Measures every CPU kernel on every instruction set of this machine beside the machine's limits. Takes the
// options of Google Benchmark: --benchmark_filter=REGEX, --benchmark_list_tests, --benchmark_format=json.
#include <benchmark/benchmark.h>

#include <vector>

#include "harness.hpp"

int main(int argc, char** argv) {
  // Unless the caller says otherwise: one column per figure, and a fifth of a second each, some minutes in
  // all.
  char tabular[] = "--benchmark_counters_tabular=true", seconds[] = "--benchmark_min_time=0.2";
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.begin() + 1, {tabular, seconds});
  int count = static_cast<int>(arguments.size());
  ::benchmark::Initialize(&count, arguments.data());
  if (::benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;

  lily::benchmarks::add_matrix_benchmarks();
  lily::benchmarks::add_sequence_benchmarks();
  lily::benchmarks::add_elementwise_benchmarks();
  const std::size_t selected = ::benchmark::RunSpecifiedBenchmarks();
  return selected == 0 ? 1 : 0;
}
