// The JSON value: parsing through nlohmann-json's event parser, accessors, comparison and Python's spelling.
#include "lily/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lily/error.hpp"

namespace lily {
namespace {

using Events = nlohmann::json;

std::vector<std::size_t> order_by_key(const Json::Object& members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return members[a].first < members[b].first; });
  return order;
}

// Of members with one key, keeps the first position and the last value. Sorting rather than hashing: a
// hostile object with a million keys must not cost more than n log n.
void merge_duplicate_keys(Json::Object& members) {
  const std::vector<std::size_t> order = order_by_key(members);
  std::vector<bool> superseded(members.size(), false);
  bool any = false;
  for (std::size_t i = 1, first = 0; i < order.size(); ++i) {
    if (members[order[i]].first != members[order[first]].first) {
      first = i;
      continue;
    }
    members[order[first]].second = std::move(members[order[i]].second);
    superseded[order[i]] = true;
    any = true;
  }
  if (!any) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (superseded[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    ++kept;
  }
  members.resize(kept);
}

// The library's diagnosis without its prefix and without the text it read: request data does not belong in
// error messages, and it may not be valid UTF-8.
std::string reason_of(const std::string& diagnosis) {
  const std::size_t begin = diagnosis.find("while parsing");
  if (begin == std::string::npos) return "not a JSON text";
  return diagnosis.substr(begin, diagnosis.find("; last read", begin) - begin);
}

// Builds a Json from the parser's events. `open_` points into the tree: a container cannot move while one of
// its elements is open.
class Builder {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  Json take() { return std::move(root_); }

  bool null() { return add({}), true; }
  bool boolean(bool value) { return add(Json::boolean(value)), true; }
  bool number_integer(std::int64_t value) { return add(Json::integer(value)), true; }
  bool number_unsigned(std::uint64_t value) { return add(Json::number(std::to_string(value))), true; }
  bool number_float(double, const std::string& spelling) { return add(Json::number(spelling)), true; }
  bool string(std::string& value) { return add(Json::string(std::move(value))), true; }
  bool binary(std::vector<std::uint8_t>&) { return false; }  // never sent for JSON text

  bool start_object(std::size_t) { return open(Json::object()); }
  bool key(std::string& name) {
    open_.back()->as_object().emplace_back(std::move(name), Json());
    return true;
  }
  bool end_object() {
    merge_duplicate_keys(open_.back()->as_object());
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    if (dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("JSON: the number ending at byte {} is beyond the range of a double", position));
    }
    throw Error(ErrorKind::bad_input,
                fmt::format("JSON: malformed at byte {}: {}", position, reason_of(error.what())));
  }

 private:
  Json& add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_array()) return parent.as_array().emplace_back(std::move(value));
    return parent.as_object().back().second = std::move(value);
  }

  bool open(Json container) {
    if (open_.size() >= limits_.max_depth) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("JSON: nested deeper than the limit of {} levels", limits_.max_depth));
    }
    open_.push_back(&add(std::move(container)));
    return true;
  }

  const JsonLimits limits_;
  Json root_;
  std::vector<Json*> open_;
};

// A decimal number as sign, digits without zeros at either end, and the power of ten of the last digit, so
// that numbers compare exactly whatever their size and spelling.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;
  bool operator==(const Decimal&) const = default;
};

Decimal decimal_of(std::string_view text) {
  Decimal decimal;
  std::size_t i = 0;
  if (i < text.size() && text[i] == '-') decimal.negative = true, ++i;
  bool fraction = false;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    decimal.digits += text[i];
    if (fraction) --decimal.exponent;
  }
  if (i < text.size()) {
    ++i;
    if (i < text.size() && text[i] == '+') ++i;
    std::int64_t power = 0;
    const auto [end, status] = std::from_chars(text.data() + i, text.data() + text.size(), power);
    // A power beyond int64 is only accepted by the parser for numbers that are zero as a double.
    if (status == std::errc::result_out_of_range) power = std::numeric_limits<std::int64_t>::min() / 2;
    decimal.exponent += power;
  }
  while (!decimal.digits.empty() && decimal.digits.back() == '0') {
    decimal.digits.pop_back();
    ++decimal.exponent;
  }
  decimal.digits.erase(0, std::min(decimal.digits.find_first_not_of('0'), decimal.digits.size()));
  if (decimal.digits.empty()) return {};
  return decimal;
}

// Python's repr of a float: the shortest digits that read back as `value`, with an exponent below 1e-4 and
// from 1e16 on.
std::string python_repr(double value) {
  char buffer[32];
  const auto scientific = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(scientific.ptr - buffer));
  const std::size_t mark = text.find('e');
  int exponent = 0;
  const std::size_t sign = text[mark + 1] == '+' ? 2 : 1;
  std::from_chars(text.data() + mark + sign, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

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
  const std::vector<std::size_t> order_a = order_by_key(a);
  const std::vector<std::size_t> order_b = order_by_key(b);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[order_a[i]] != b[order_b[i]]) return false;
  }
  return true;
}

[[noreturn]] void throw_kind(const char* needed, const Json& found) {
  throw Error(ErrorKind::bad_input, fmt::format("expected {}, found {}", needed, found.kind_name()));
}

}  // namespace

Json Json::boolean(bool value) { return Json(Kind::boolean, value); }
Json Json::integer(std::int64_t value) { return number(std::to_string(value)); }
Json Json::number(std::string spelling) { return Json(Kind::number, std::move(spelling)); }
Json Json::string(std::string value) { return Json(Kind::string, std::move(value)); }
Json Json::array(Array values) { return Json(Kind::array, std::move(values)); }
Json Json::object(Object members) { return Json(Kind::object, std::move(members)); }

Json Json::real(double value) {
  if (!std::isfinite(value)) {
    throw Error(ErrorKind::internal, fmt::format("JSON has no spelling for the number {}", value));
  }
  return number(python_repr(value));
}

Json Json::parse(std::string_view text, const JsonLimits& limits) {
  Builder builder(limits);
  Events::sax_parse(text, &builder);  // the builder throws on every failure
  return builder.take();
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
      return a.number_text() == b.number_text() || decimal_of(a.number_text()) == decimal_of(b.number_text());
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
