// Typed, strict access to the members of a JSON object in a request. A null member is an absent one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lily/json.hpp"

namespace lily::serve {

// Every function throws Error(bad_input) whose param() is the member's path when the value has another type.
class FieldReader {
 public:
  // `path` is put before member names: "" for the body, "stream_options." for a nested object.
  explicit FieldReader(const Json& object, std::string path = {});

  const Json* find(std::string_view name) const;  // nullptr when absent or null
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  const std::string* string(std::string_view name) const;  // nullptr when absent or null
  const Json* object(std::string_view name) const;
  const Json* array(std::string_view name) const;

  std::string path(std::string_view name) const;

 private:
  const Json& object_;
  std::string path_;
};

}  // namespace lily::serve
