// The request member tool_choice.
#pragma once

#include "lily/generation.hpp"
#include "serve/field_reader.hpp"

namespace lily::serve {

// auto: the model sees the tools and calls are parsed. none: it sees no tools and nothing is parsed. required
// and a named function need constrained decoding and are refused. Throws Error: bad_input, unsupported.
void apply_tool_choice(const FieldReader& fields, ChatPrompt& prompt, GenerationRequest& generation);

}  // namespace lily::serve
