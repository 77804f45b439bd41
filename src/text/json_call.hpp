// A tool call written as a JSON object inside the call tags, the format of older models of the family.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lily/json.hpp"

namespace lily::text {

// Finds the end of a JSON object in text that comes in pieces.
class JsonObjectScanner {
 public:
  enum class State { open, complete, broken };
  // Reads on from text[at]; returns the place after the last byte taken. A byte that no JSON object can have
  // there is not taken: the scanner is broken.
  std::size_t scan(std::string_view text, std::size_t at);
  State state() const noexcept { return state_; }

 private:
  State state_ = State::open;
  std::size_t depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

struct JsonCall {
  std::string name;
  Json arguments;  // an object
};

// The call in `object`, which needs a `name` and `arguments` (an object, or a string that holds one).
std::optional<JsonCall> read_json_call(std::string_view object);

}  // namespace lily::text
