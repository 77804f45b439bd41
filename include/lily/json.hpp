// A JSON value that keeps what the prompt format needs: key order and the spelling of numbers.
//
// Chat templates print tools and arguments as Python's json.dumps does; a client's `1.50` or a 30-digit
// integer must reach the prompt as it was sent. Parsing is done by nlohmann-json; this type is the storage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lily {

// Limits on untrusted JSON, checked while parsing.
struct JsonLimits {
  std::size_t max_depth = 128;
};

class Json {
 public:
  enum class Kind : std::uint8_t { null, boolean, number, string, array, object };
  using Member = std::pair<std::string, Json>;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json() = default;  // null
  static Json boolean(bool value);
  static Json integer(std::int64_t value);
  static Json real(double value);            // finite; spelled as Python's repr
  static Json number(std::string spelling);  // of a valid JSON number
  static Json string(std::string value);
  static Json array();
  static Json array(Array values);
  static Json object();
  static Json object(Object members);

  // Parses one complete JSON text. Duplicate keys: the last value wins and keeps the first position, as in
  // Python. Throws Error(bad_input) naming the byte offset for malformed text, invalid UTF-8, lone
  // surrogates, numbers too large for a double or nesting beyond the limit.
  static Json parse(std::string_view text, const JsonLimits& limits = {});

  Kind kind() const noexcept { return kind_; }
  const char* kind_name() const noexcept;  // "null", "boolean", "number", "string", "array", "object"
  bool is_null() const noexcept { return kind_ == Kind::null; }
  bool is_boolean() const noexcept { return kind_ == Kind::boolean; }
  bool is_number() const noexcept { return kind_ == Kind::number; }
  bool is_string() const noexcept { return kind_ == Kind::string; }
  bool is_array() const noexcept { return kind_ == Kind::array; }
  bool is_object() const noexcept { return kind_ == Kind::object; }

  // Accessors throw Error(bad_input) naming the kind found when the kind differs.
  bool as_boolean() const;
  double as_double() const;
  const std::string& as_string() const;
  const std::string& number_text() const;
  const Array& as_array() const;
  Array& as_array();
  const Object& as_object() const;
  Object& as_object();

  // The value when it is a number written as an integer (1, -7; not 1.0) within int64; nothing otherwise.
  std::optional<std::int64_t> as_integer() const;

  // Member lookup; nullptr when this is no object or has no such key.
  const Json* find(std::string_view key) const noexcept;
  // Sets or appends a member of an object (a null value becomes an object first).
  void set(std::string key, Json value);

  // Text as Python's json.dumps(value, ensure_ascii=False): ", " and ": ", no HTML escapes.
  std::string dump_python() const;
  // Text without spaces, for the wire.
  std::string dump() const;

  // Equal values: numbers by their exact decimal value (1.50 == 1.5, 1e2 == 100), objects in any key order.
  friend bool operator==(const Json& a, const Json& b);

 private:
  template <typename Value>
  Json(Kind kind, Value value) : kind_(kind), value_(std::move(value)) {}

  Kind kind_ = Kind::null;
  // number: its spelling; string: its text; boolean: bool.
  std::variant<std::monostate, bool, std::string, Array, Object> value_;
};

// Appends `text` as a JSON string literal with quotes, escaping as json.dumps(ensure_ascii=False) does.
void append_json_string(std::string& out, std::string_view text);

}  // namespace lily
