// Turns the raw text of a call's parameter into JSON by the type its schema declares.
#pragma once

#include <string>
#include <string_view>

#include "lily/json.hpp"

namespace lily::text {

// The JSON types a schema admits; none of them when it does not say.
struct ValueTypes {
  bool null = false;
  bool boolean = false;
  bool integer = false;
  bool number = false;
  bool string = false;
  bool array = false;
  bool object = false;

  bool only_string() const { return string && !(null || boolean || integer || number || array || object); }
  bool unknown() const { return !(null || boolean || integer || number || string || array || object); }
};

// Types from `type`, `enum`, `const`, `anyOf`, `oneOf`, `allOf` and `$ref` into `root`. Schemas come from
// clients: recursion and size are bounded, what lies beyond the bound does not count.
ValueTypes value_types(const Json& schema, const Json& root);

// True when a value that begins with `begin` can only become a string, so that it may be passed on as it
// comes.
bool is_surely_text(const ValueTypes& types, std::string_view begin);

// JSON text of the value: converted where text and type agree, else the raw text as a string. A declared
// string is never converted; without a declared type only JSON objects and arrays are.
std::string argument_json(const ValueTypes& types, std::string_view value);

}  // namespace lily::text
