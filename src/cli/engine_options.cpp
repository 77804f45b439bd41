// The options that every command with an engine shares.
#include "cli/engine_options.hpp"

#include <limits>
#include <string>

namespace lily::cli {

void add_model_option(Arguments& arguments, std::filesystem::path& model) {
  arguments.option("--model", model, "Checkpoint folder", "DIR").required();
}

void add_backend_option(Arguments& arguments, std::string& backend) {
  arguments.option("--backend", backend, "auto, cpu, cuda, reference or emulator (default: auto)", "NAME");
}

void add_kv_option(Arguments& arguments, KvFormat& kv) {
  arguments
      .option(
          "--kv", [&kv](const std::string& name) { kv = name == "int8" ? KvFormat::int8 : KvFormat::f16; },
          "Storage of the attention cache (default: f16)")
      .one_of({"f16", "int8"});
}

void add_context_option(Arguments& arguments, int& context) {
  arguments
      .option("--context", context, "Tokens a conversation may have (default: 32768, or the model's limit)",
              "N")
      .range(1, std::numeric_limits<int>::max());
}

void add_engine_options(Arguments& arguments, EngineOptions& options) {
  add_model_option(arguments, options.model);
  add_kv_option(arguments, options.kv);
  add_backend_option(arguments, options.backend);
  arguments.option("--threads", options.threads, "Threads (default: all cores)", "N").range(1, kMaxThreads);
  add_activations_option(arguments, "--activations", options.activations,
                         "Precision of the activations (default: auto)");
}

Arguments& add_activations_option(Arguments& arguments, const std::string& option, Activations& activations,
                                  const std::string& help) {
  return arguments
      .option(
          option,
          [&activations](const std::string& name) {
            activations = name == "exact"  ? Activations::exact
                          : name == "fast" ? Activations::fast
                                           : Activations::automatic;
          },
          help)
      .one_of({"auto", "exact", "fast"});
}

}  // namespace lily::cli
