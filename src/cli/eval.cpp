// `lily eval`: fidelity against stored logits, success in a suite of tasks, perplexity of a text.
#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/engine_options.hpp"
#include "cli/input_output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/terminal.hpp"
#include "lily/json.hpp"
#include "lily/measure.hpp"
#include "lily/suite.hpp"

namespace lily::cli {
namespace {

constexpr int kMostTokens = 1 << 24;

struct EvalFlags {
  EngineOptions engine;
  std::filesystem::path golden;
  std::string suite;
  SuiteOptions suite_options;
  bool verbose = false;
  TextOptions text;
  bool json = false;
};

Json to_json(const EvaluationRow& row) {
  Json json = Json::object();
  json.set("entry", Json::string(row.entry));
  json.set("positions", Json::integer(row.positions));
  json.set("max_abs_error", number_or_null(row.max_abs_error));
  json.set("top1", number_or_null(row.top1));
  json.set("perplexity_ratio", number_or_null(row.perplexity_ratio));
  json.set("kl", number_or_null(row.kl));
  json.set("greedy_equal", Json::integer(row.greedy_equal));
  return json;
}

void run_golden(const EvalFlags& flags) {
  if (!flags.json) {
    write_output(fmt::format("{:<12} {:>9} {:>13} {:>8} {:>17} {:>10} {:>13}\n", "entry", "positions",
                             "max abs error", "top-1", "perplexity ratio", "KL", "greedy equal"));
  }
  evaluate(flags.engine, flags.golden, [&](const EvaluationRow& row) {
    if (flags.json) {
      write_output(to_json(row).dump() + "\n");
    } else {
      write_output(fmt::format("{:<12} {:>9} {:>13.3g} {:>8.4f} {:>17.6f} {:>10.3g} {:>13}\n", row.entry,
                               row.positions, row.max_abs_error, row.top1, row.perplexity_ratio, row.kl,
                               row.greedy_equal));
    }
    flush_output();
  });
}

Json to_json(const SuiteRow& row) {
  Json json = Json::object();
  json.set("kind", Json::string(row.kind));
  json.set("tasks", Json::integer(row.tasks));
  json.set("passed", Json::integer(row.passed));
  json.set("share", number_or_null(row.share()));
  json.set("broken", Json::integer(row.broken));
  return json;
}

void print_failure(const TaskOutcome& outcome) {
  if (outcome.judgement.passed) return;
  fmt::print(stderr, "{} {}: wanted {}\n  {}: {}\n", without_controls(outcome.kind), outcome.task,
             without_controls(outcome.wanted), outcome.judgement.broken ? "broken" : "answer",
             without_controls(outcome.answer));
}

// "mini" is the suite that lies beside the weights, anything else a file.
std::filesystem::path suite_file(const EvalFlags& flags) {
  return flags.suite == "mini" ? flags.engine.model / "suite.jsonl" : std::filesystem::path(flags.suite);
}

void run_suite_of(const EvalFlags& flags) {
  const std::vector<SuiteTask> tasks = read_suite(suite_file(flags));
  const auto engine = Engine::open(flags.engine);
  std::vector<SuiteRow> rows = run_suite(*engine, tasks, flags.suite_options,
                                         flags.verbose ? print_failure : nullptr, flags.engine.progress);
  rows.push_back(total(rows));
  if (!flags.json) {
    write_output(
        fmt::format("{:<16} {:>6} {:>7} {:>8} {:>7}\n", "kind", "tasks", "passed", "share", "broken"));
  }
  for (const SuiteRow& row : rows) {
    write_output(flags.json ? to_json(row).dump() + "\n"
                            : fmt::format("{:<16} {:>6} {:>7} {:>7.1f}% {:>7}\n", without_controls(row.kind),
                                          row.tasks, row.passed, 100 * row.share(), row.broken));
  }
  flush_output();
}

Json to_json(const TextRow& row) {
  Json json = Json::object();
  json.set("windows", Json::integer(row.windows));
  json.set("tokens", Json::integer(row.tokens));
  json.set("predicted", Json::integer(row.predicted));
  json.set("bytes_per_token", number_or_null(row.bytes_per_token));
  json.set("perplexity", number_or_null(row.perplexity));
  json.set("against_perplexity", number_or_null(row.against_perplexity));
  json.set("perplexity_ratio", number_or_null(row.perplexity_ratio));
  json.set("top1", number_or_null(row.top1));
  json.set("kl", number_or_null(row.kl));
  return json;
}

void run_text(const EvalFlags& flags) {
  const TextRow row = evaluate_text(flags.engine, flags.text);
  if (flags.json) {
    write_output(to_json(row).dump() + "\n");
  } else {
    write_output(fmt::format("{} tokens of {:.2f} bytes in {} window{}; perplexity {:.5g} over {} tokens\n",
                             row.tokens, row.bytes_per_token, row.windows, row.windows == 1 ? "" : "s",
                             row.perplexity, row.predicted));
    if (!flags.text.against.empty()) {
      write_output(fmt::format("against perplexity {:.5g}: ratio {:.5f}, top-1 {:.4f}, KL {:.3g}\n",
                               row.against_perplexity, row.perplexity_ratio, row.top1, row.kl));
    }
  }
  flush_output();
}

void run_eval(EvalFlags& flags) {
  flags.engine.progress = progress_bar();
  if (!flags.golden.empty()) return run_golden(flags);
  if (!flags.suite.empty()) return run_suite_of(flags);
  run_text(flags);
}

}  // namespace

void add_eval(CLI::App& program) {
  const auto flags = std::make_shared<EvalFlags>();
  Arguments arguments(program, "eval", "Judge a checkpoint: stored logits, a suite of tasks, or a text");
  add_engine_options(arguments, flags->engine);
  arguments.flag("--json", flags->json, "One JSON object a line")
      .option("--golden", flags->golden, "Compare with the logits in this file (safetensors)", "FILE")
      .option("--suite", flags->suite, "Answer tasks: mini (DIR/suite.jsonl) or a file of JSON lines",
              "mini|FILE")
      .option("--limit", flags->suite_options.limit, "Tasks of each kind (default: all)", "N")
      .range(1, kMostTokens)
      .only_with("--suite")
      .flag("--verbose", flags->verbose, "Print the tasks that failed to standard error")
      .only_with("--suite")
      .option("--text", flags->text.text, "Perplexity of this text; control literals are control tokens",
              "FILE")
      .option("--window", flags->text.window,
              "Tokens read from a fresh start at a time (default: 32768, or the model's limit)", "N")
      .range(2, kMostTokens)
      .only_with("--text")
      .option("--against", flags->text.against, "A second checkpoint reads the text too", "DIR")
      .only_with("--text")
      .option("--against-backend", flags->text.against_backend, "The second one's backend (default: auto)",
              "NAME")
      .only_with("--against");
  add_activations_option(arguments, "--against-activations", flags->text.against_activations,
                         "Precision of the second one's activations (default: auto)")
      .only_with("--against")
      .exactly_one({"--golden", "--suite", "--text"})
      .examples(
          "What is measured and what each JSON key means: docs/performance.md, \"Fidelity\"\n"
          "Examples:\n"
          "  lily eval --model models/lily-mini --golden tests/data/golden/golden-mini-q4.safetensors "
          "--json\n"
          "  lily eval --model models/lily-mini --suite mini --limit 20 --verbose\n"
          "  lily eval --model DIR --text FILE --against DIR --against-backend reference")
      .run([flags] { run_eval(*flags); });
}

}  // namespace lily::cli
