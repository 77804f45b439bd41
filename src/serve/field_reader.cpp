// Typed access to request members.
#include "serve/field_reader.hpp"

#include <fmt/format.h>

#include "lily/error.hpp"

namespace lily::serve {
namespace {

[[noreturn]] void refuse_type(const std::string& path, const char* needed, const Json& found) {
  throw Error(ErrorKind::bad_input, fmt::format("{} must be {}, not {}", path, needed, found.kind_name()),
              path);
}

}  // namespace

FieldReader::FieldReader(const Json& object, std::string path) : object_(object), path_(std::move(path)) {}

std::string FieldReader::path(std::string_view name) const { return path_ + std::string(name); }

const Json* FieldReader::find(std::string_view name) const {
  const Json* value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<bool> FieldReader::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_type(path(name), "a boolean", *value);
  return value->as_boolean();
}

std::optional<double> FieldReader::number(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse_type(path(name), "a number", *value);
  return value->as_double();
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse_type(path(name), "an integer", *value);
  const std::optional<std::int64_t> integer = value->as_integer();
  if (!integer) {
    throw Error(ErrorKind::bad_input, fmt::format("{} must be an integer within 64 bits", path(name)),
                path(name));
  }
  return integer;
}

const std::string* FieldReader::string(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_string()) refuse_type(path(name), "a string", *value);
  return &value->as_string();
}

const Json* FieldReader::object(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) refuse_type(path(name), "an object", *value);
  return value;
}

const Json* FieldReader::array(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_array()) refuse_type(path(name), "an array", *value);
  return value;
}

}  // namespace lily::serve
