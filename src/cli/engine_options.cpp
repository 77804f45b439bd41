// The options that every command with an engine shares.
#include "cli/engine_options.hpp"

#include <limits>
#include <string>

namespace lily::cli {

void add_memory_options(Arguments& arguments, std::filesystem::path& model, int& context, KvFormat& kv) {
  arguments.option("--model", model, "Checkpoint folder", "DIR").required();
  arguments
      .option("--context", context, "Tokens a conversation may have (default: 32768, or the model's limit)",
              "N")
      .range(1, std::numeric_limits<int>::max());
  arguments
      .option(
          "--kv", [&kv](const std::string& name) { kv = name == "int8" ? KvFormat::int8 : KvFormat::f16; },
          "Storage of the attention cache (default: f16)")
      .one_of({"f16", "int8"});
}

void add_engine_options(Arguments& arguments, EngineOptions& options) {
  add_memory_options(arguments, options.model, options.context, options.kv);
  arguments.option("--backend", options.backend, "auto, cpu or reference (default: auto)", "NAME");
  arguments.option("--threads", options.threads, "Threads (default: all cores)", "N").range(1, 4096);
  arguments
      .option(
          "--activations",
          [&options](const std::string& name) {
            options.activations = name == "exact"  ? Activations::exact
                                  : name == "fast" ? Activations::fast
                                                   : Activations::automatic;
          },
          "Precision of the activations (default: auto)")
      .one_of({"auto", "exact", "fast"});
}

}  // namespace lily::cli
