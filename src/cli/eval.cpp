// `lily eval`: fidelity against stored reference logits.
#include <fmt/core.h>

#include <filesystem>
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

struct EvalFlags {
  EngineOptions engine;
  std::filesystem::path golden;
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

void run_eval(EvalFlags& flags) {
  flags.engine.progress = progress_bar();
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

}  // namespace

void add_eval(CLI::App& program) {
  const auto flags = std::make_shared<EvalFlags>();
  Arguments arguments(program, "eval", "Compare with stored reference logits");
  add_engine_options(arguments, flags->engine);
  arguments.option("--golden", flags->golden, "Reference file (safetensors)", "FILE")
      .required()
      .flag("--json", flags->json, "One JSON object a line")
      .examples(
          "Example:\n"
          "  lily eval --model models/lily-mini --golden tests/data/golden/golden-mini-q4.safetensors --json")
      .run([flags] { run_eval(*flags); });
}

}  // namespace lily::cli
