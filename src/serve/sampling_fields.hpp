// The sampling members of a request.
#pragma once

#include "lily/generation.hpp"
#include "serve/field_reader.hpp"

namespace lily::serve {

// Types are checked here, ranges by the engine. Throws Error(bad_input).
SamplingOptions read_sampling(const FieldReader& fields);

}  // namespace lily::serve
