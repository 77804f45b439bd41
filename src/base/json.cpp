// The JSON value: making, reading, comparing and printing it. Parsing is in json_parse.cpp.
#include "lily/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "base/json_number.hpp"
#include "lily/error.hpp"

namespace lily {
namespace {

struct Separators {
  std::string_view item;
  std::string_view key;
};

void append(std::string& out, const Json& value, const Separators& separators) {
  switch (value.kind()) {
    case Json::Kind::null:
      out += "null";
      return;
    case Json::Kind::boolean:
      out += value.as_boolean() ? "true" : "false";
      return;
    case Json::Kind::number:
      out += value.number_text();
      return;
    case Json::Kind::string:
      append_json_string(out, value.as_string());
      return;
    case Json::Kind::array: {
      out += '[';
      bool first = true;
      for (const Json& element : value.as_array()) {
        if (!std::exchange(first, false)) out += separators.item;
        append(out, element, separators);
      }
      out += ']';
      return;
    }
    case Json::Kind::object: {
      out += '{';
      bool first = true;
      for (const auto& [key, member] : value.as_object()) {
        if (!std::exchange(first, false)) out += separators.item;
        append_json_string(out, key);
        out += separators.key;
        append(out, member, separators);
      }
      out += '}';
      return;
    }
  }
}

bool equal_objects(const Json::Object& a, const Json::Object& b) {
  if (a.size() != b.size()) return false;
  std::map<std::string_view, const Json*> members;
  for (const auto& [key, value] : b) members.emplace(key, &value);
  return std::all_of(a.begin(), a.end(), [&](const Json::Member& member) {
    const auto found = members.find(member.first);
    return found != members.end() && member.second == *found->second;
  });
}

[[noreturn]] void throw_kind(const char* needed, const Json& found) {
  throw Error(ErrorKind::bad_input, fmt::format("expected {}, found {}", needed, found.kind_name()));
}

}  // namespace

Json Json::boolean(bool value) { return Json(Kind::boolean, value); }
Json Json::integer(std::int64_t value) { return number(std::to_string(value)); }
Json Json::number(std::string spelling) { return Json(Kind::number, std::move(spelling)); }
Json Json::string(std::string value) { return Json(Kind::string, std::move(value)); }
Json Json::array() { return array(Array()); }
Json Json::object() { return object(Object()); }
Json Json::array(Array values) { return Json(Kind::array, std::move(values)); }
Json Json::object(Object members) { return Json(Kind::object, std::move(members)); }

Json Json::real(double value) {
  if (!std::isfinite(value)) {
    throw Error(ErrorKind::internal, fmt::format("JSON has no spelling for the number {}", value));
  }
  return number(python_repr(value));
}

const char* Json::kind_name() const noexcept {
  switch (kind_) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "boolean";
    case Kind::number:
      return "number";
    case Kind::string:
      return "string";
    case Kind::array:
      return "array";
    case Kind::object:
      return "object";
  }
  return "";
}

bool Json::as_boolean() const {
  if (!is_boolean()) throw_kind("a boolean", *this);
  return std::get<bool>(value_);
}

double Json::as_double() const {
  const std::string& text = number_text();
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  // The parser refuses numbers too large for a double, so what is out of range here is too small for one.
  return status == std::errc() ? value : 0.0;
}

const std::string& Json::as_string() const {
  if (!is_string()) throw_kind("a string", *this);
  return std::get<std::string>(value_);
}

const std::string& Json::number_text() const {
  if (!is_number()) throw_kind("a number", *this);
  return std::get<std::string>(value_);
}

const Json::Array& Json::as_array() const {
  if (!is_array()) throw_kind("an array", *this);
  return std::get<Array>(value_);
}

Json::Array& Json::as_array() {
  if (!is_array()) throw_kind("an array", *this);
  return std::get<Array>(value_);
}

const Json::Object& Json::as_object() const {
  if (!is_object()) throw_kind("an object", *this);
  return std::get<Object>(value_);
}

Json::Object& Json::as_object() {
  if (!is_object()) throw_kind("an object", *this);
  return std::get<Object>(value_);
}

std::optional<std::int64_t> Json::as_integer() const {
  if (!is_number()) return std::nullopt;
  const std::string& text = number_text();
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const Json* Json::find(std::string_view key) const noexcept {
  const Object* members = std::get_if<Object>(&value_);
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(),
                                  [&](const Member& member) { return member.first == key; });
  return found == members->end() ? nullptr : &found->second;
}

void Json::set(std::string key, Json value) {
  if (is_null()) *this = object();
  Object& members = as_object();
  for (auto& [name, member] : members) {
    if (name == key) {
      member = std::move(value);
      return;
    }
  }
  members.emplace_back(std::move(key), std::move(value));
}

std::string Json::dump_python() const {
  std::string out;
  append(out, *this, {.item = ", ", .key = ": "});
  return out;
}

std::string Json::dump() const {
  std::string out;
  append(out, *this, {.item = ",", .key = ":"});
  return out;
}

bool operator==(const Json& a, const Json& b) {
  if (a.kind_ != b.kind_) return false;
  switch (a.kind_) {
    case Json::Kind::number:
      return equal_numbers(a.number_text(), b.number_text());
    case Json::Kind::object:
      return equal_objects(a.as_object(), b.as_object());
    default:
      return a.value_ == b.value_;
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

}  // namespace lily
