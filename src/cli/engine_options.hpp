// The options that every command with an engine shares.
#pragma once

#include "cli/arguments.hpp"
#include "lily/engine.hpp"

namespace lily::cli {

// --model, --backend, --kv, --threads, --activations.
void add_engine_options(Arguments& arguments, EngineOptions& options);
// Parts of it for commands without an engine, and --context for those whose work does not decide it.
void add_model_option(Arguments& arguments, std::filesystem::path& model);
void add_backend_option(Arguments& arguments, std::string& backend);
void add_kv_option(Arguments& arguments, KvFormat& kv);
void add_context_option(Arguments& arguments, int& context);
// `option` as --activations; what is called on the result belongs to it.
Arguments& add_activations_option(Arguments& arguments, const std::string& option, Activations& activations,
                                  const std::string& help);

}  // namespace lily::cli
