// Which members a chat completion request may have, and what becomes of each.
#pragma once

#include "lily/json.hpp"

namespace lily::serve {

// Throws Error: bad_input naming all unknown members, unsupported naming the first one that asks for
// something not offered. Members that are null ask for nothing.
void check_fields(const Json& body);

}  // namespace lily::serve
