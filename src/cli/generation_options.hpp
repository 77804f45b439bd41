// The options that decide how tokens are drawn and when an answer ends.
#pragma once

#include "cli/arguments.hpp"
#include "lily/generation.hpp"

namespace lily::cli {

// --max-tokens, --stop and the sampling values. The engine checks the values and names the field.
void add_generation_options(Arguments& arguments, GenerationRequest& request);

}  // namespace lily::cli
