// The options that every command with an engine shares.
#pragma once

#include "cli/arguments.hpp"
#include "lily/engine.hpp"

namespace lily::cli {

// --model, --backend, --context, --threads, --activations, --kv.
void add_engine_options(Arguments& arguments, EngineOptions& options);
// --model, --context and --kv alone, which decide the memory.
void add_memory_options(Arguments& arguments, std::filesystem::path& model, int& context, KvFormat& kv);

}  // namespace lily::cli
