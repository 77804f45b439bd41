// Typed access with the checks that every configuration field gets.
#include "checkpoint/json_fields.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/mapped_file.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {

JsonFields::JsonFields(const Json& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {
  if (!object.is_object()) {
    throw Error(ErrorKind::bad_input, fmt::format("{}{}{}: is a {}, an object is needed", file_,
                                                  path_.empty() ? "" : ": ", path_, object.kind_name()));
  }
}

const Json* JsonFields::find(std::string_view name) const {
  const Json* const value = object_.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<JsonFields> JsonFields::object(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  return JsonFields(*value, file_, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name));
}

std::int64_t JsonFields::integer(std::string_view name, std::int64_t low, std::int64_t high) const {
  const std::optional<std::int64_t> value = optional_integer(name, low, high);
  if (!value) fail_missing(name);
  return *value;
}

std::optional<std::int64_t> JsonFields::optional_integer(std::string_view name, std::int64_t low,
                                                         std::int64_t high) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::int64_t> number = value->as_integer();
  if (!number) fail(name, fmt::format("is {}, an integer is needed", shown(*value)));
  if (*number < low || *number > high) {
    fail(name, fmt::format("is {}, a value from {} to {} is needed", *number, low, high));
  }
  return number;
}

std::optional<double> JsonFields::optional_number(std::string_view name, double low, double high) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) fail(name, fmt::format("is {}, a number is needed", shown(*value)));
  const double number = value->as_double();
  if (!(number >= low && number <= high)) {
    fail(name, fmt::format("is {}, a value from {} to {} is needed", shown(*value), low, high));
  }
  return number;
}

std::optional<bool> JsonFields::optional_boolean(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) fail(name, fmt::format("is {}, true or false is needed", shown(*value)));
  return value->as_boolean();
}

std::string JsonFields::string(std::string_view name) const {
  std::optional<std::string> value = optional_string(name);
  if (!value) fail_missing(name);
  return *std::move(value);
}

std::optional<std::string> JsonFields::optional_string(std::string_view name) const {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) fail(name, fmt::format("is {}, a string is needed", shown(*value)));
  return value->as_string();
}

std::string JsonFields::place(std::string_view name) const {
  return path_.empty() ? fmt::format("{}: {}", file_, name) : fmt::format("{}: {}.{}", file_, path_, name);
}

void JsonFields::fail(std::string_view name, const std::string& message) const {
  throw Error(ErrorKind::bad_input, fmt::format("{} {}", place(name), message));
}

void JsonFields::fail_missing(std::string_view name) const { fail(name, "is missing"); }

Json read_json_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const std::string text = read_text_file(path, max_bytes);
  try {
    return Json::parse(text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", path.string(), error.what()));
  }
}

std::string shown(const Json& value) {
  constexpr std::size_t kShown = 200;
  std::string text = value.dump();
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

}  // namespace lily::checkpoint
