// Which members a chat completion request may have, and what becomes of each.
#pragma once

#include <string_view>

#include "lily/json.hpp"

namespace lily::serve {

enum class FieldUse {
  honoured,     // decides the answer
  ignored,      // sent by ordinary clients, says nothing to a local server
  unsupported,  // asks for something this server does not do
  unknown,
};

FieldUse use_of(std::string_view name);

// Throws Error: bad_input naming all unknown members, unsupported naming the first one that asks for
// something not offered. Members that are null ask for nothing.
void check_fields(const Json& body);

}  // namespace lily::serve
