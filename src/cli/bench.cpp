// `lily bench`: speed on this machine, as a table or as JSON lines.
#include <fmt/core.h>

#include <memory>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/engine_options.hpp"
#include "cli/input_output.hpp"
#include "cli/progress_bar.hpp"
#include "lily/json.hpp"
#include "lily/measure.hpp"

namespace lily::cli {
namespace {

constexpr int kMostTokens = 1 << 24;

struct BenchFlags {
  EngineOptions engine;
  BenchmarkOptions benchmark;
  bool json = false;
};

Json to_json(const BenchmarkRow& row) {
  Json json = Json::object();
  json.set("backend", Json::string(row.backend));
  json.set("prompt_tokens", Json::integer(row.prompt_tokens));
  json.set("depth", Json::integer(row.depth));
  json.set("prefill_tok_s", number_or_null(row.prefill_tok_s));
  json.set("decode_tok_s", number_or_null(row.decode_tok_s));
  json.set("bytes_per_token", number_or_null(row.bytes_per_token));
  json.set("gb_per_s", number_or_null(row.gb_per_s));
  json.set("stream_gb_per_s", number_or_null(row.stream_gb_per_s));
  json.set("int8_tera_ops", number_or_null(row.int8_tera_ops));
  json.set("limit_share", number_or_null(row.limit_share));
  json.set("prefill_limit_share", number_or_null(row.prefill_limit_share));
  json.set("activations", Json::string(row.activations));
  json.set("kv", Json::string(row.kv));
  json.set("peak_rss_bytes", Json::integer(static_cast<std::int64_t>(row.peak_rss_bytes)));
  json.set("digest", Json::string(row.digest));
  return json;
}

void print_table_head() {
  write_output(fmt::format("{:>8} {:>8} {:>14} {:>8} {:>13} {:>8} {:>9} {:>9}  {}\n", "prompt", "depth",
                           "prefill tok/s", "of limit", "decode tok/s", "of limit", "MB/token", "GB/s",
                           "digest"));
}

// Not every backend's arithmetic has a measured limit.
std::string prefill_share(const BenchmarkRow& row) {
  return row.int8_tera_ops > 0 ? fmt::format("{:.0f}%", 100 * row.prefill_limit_share) : "-";
}

void print_table_row(const BenchmarkRow& row) {
  write_output(fmt::format("{:>8} {:>8} {:>14.1f} {:>8} {:>13.1f} {:>7.0f}% {:>9.2f} {:>9.2f}  {}\n",
                           row.prompt_tokens, row.depth, row.prefill_tok_s, prefill_share(row),
                           row.decode_tok_s, 100 * row.limit_share, row.bytes_per_token * 1e-6, row.gb_per_s,
                           row.digest));
}

void print_table_foot(const BenchmarkRow& row) {
  const std::string arithmetic =
      row.int8_tera_ops > 0 ? fmt::format(", {:.2f} int8 tera operations/s", row.int8_tera_ops) : "";
  write_output(fmt::format("{}; activations {}; kv {}\nmachine: {:.1f} GB/s read{}; peak memory {:.2f} GB\n",
                           row.backend, row.activations, row.kv, row.stream_gb_per_s, arithmetic,
                           static_cast<double>(row.peak_rss_bytes) * 1e-9));
}

void run_bench(BenchFlags& flags) {
  flags.engine.progress = progress_bar();
  BenchmarkRow last;
  if (!flags.json) print_table_head();
  benchmark(flags.engine, flags.benchmark, [&](const BenchmarkRow& row) {
    if (flags.json) {
      write_output(to_json(row).dump() + "\n");
    } else {
      print_table_row(row);
    }
    flush_output();
    last = row;
  });
  if (!flags.json) print_table_foot(last);
}

}  // namespace

void add_bench(CLI::App& program) {
  const auto flags = std::make_shared<BenchFlags>();
  Arguments arguments(program, "bench", "Measure prefill and decode against the machine's limits");
  add_engine_options(arguments, flags->engine);
  arguments.list("--prompt", flags->benchmark.prompts, "Prompt lengths in tokens (default: 512)")
      .range(1, kMostTokens)
      .list("--depth", flags->benchmark.depths, "Tokens before the measured prompt (default: 0)")
      .range(0, kMostTokens)
      .option("--decode", flags->benchmark.decode, "Measured decode steps (default: 64)", "N")
      .range(1, kMostTokens)
      .flag("--json", flags->json, "One JSON object a line")
      .examples(
          "What is measured and what each JSON key means: docs/performance.md\n"
          "Examples:\n"
          "  lily bench --model models/lily-mini --prompt 512,4096 --decode 64\n"
          "  lily bench --model DIR --prompt 512 --depth 0,16384 --json")
      .run([flags] { run_bench(*flags); });
}

}  // namespace lily::cli
