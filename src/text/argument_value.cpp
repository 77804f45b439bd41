// The schema's types of a parameter, and the conversion of its text.
#include "text/argument_value.hpp"

#include <algorithm>
#include <optional>

#include "lily/error.hpp"
#include "text/strip.hpp"

namespace lily::text {
namespace {

// Walks the part of a schema that tells types.
class TypeCollector {
 public:
  explicit TypeCollector(const Json& root) : root_(root) {}

  void visit(const Json& schema) {
    if (budget_ == 0 || !schema.is_object()) return;
    --budget_;
    if (const Json* type = schema.find("type")) add_type(*type);
    if (const Json* values = schema.find("enum"); values != nullptr && values->is_array()) {
      const std::size_t count = std::min(values->as_array().size(), kEnumValues);
      for (std::size_t i = 0; i < count; ++i) add_type_of(values->as_array()[i]);
    }
    if (const Json* value = schema.find("const")) add_type_of(*value);
    if (const Json* nullable = schema.find("nullable");
        nullable != nullptr && *nullable == Json::boolean(true)) {
      types_.null = true;
    }
    for (const char* keyword : {"anyOf", "oneOf", "allOf"}) {
      const Json* branches = schema.find(keyword);
      if (branches == nullptr || !branches->is_array()) continue;
      for (const Json& branch : branches->as_array()) visit(branch);
    }
    if (const Json* reference = schema.find("$ref"); reference != nullptr && reference->is_string()) {
      if (const Json* target = resolve(reference->as_string())) visit(*target);
    }
  }

  const ValueTypes& types() const { return types_; }

 private:
  static constexpr std::size_t kEnumValues = 64;

  void add_type(const Json& type) {
    if (type.is_array()) {
      for (const Json& one : type.as_array()) {
        if (one.is_string()) add_type(one);
      }
    } else if (type.is_string()) {
      const std::string& name = type.as_string();
      types_.null |= name == "null";
      types_.boolean |= name == "boolean";
      types_.integer |= name == "integer";
      types_.number |= name == "number";
      types_.string |= name == "string";
      types_.array |= name == "array";
      types_.object |= name == "object";
    }
  }

  void add_type_of(const Json& value) {
    if (value.is_number()) {
      (value.as_integer() ? types_.integer : types_.number) = true;
    } else {
      add_type(Json::string(value.kind_name()));
    }
  }

  // A local reference, "#/$defs/Name": a JSON pointer into the root schema.
  const Json* resolve(std::string_view reference) const {
    if (!reference.starts_with("#/")) return reference == "#" ? &root_ : nullptr;
    const Json* at = &root_;
    reference.remove_prefix(1);
    while (at != nullptr && !reference.empty()) {
      reference.remove_prefix(1);
      const std::size_t slash = std::min(reference.find('/'), reference.size());
      at = at->find(unescape(reference.substr(0, slash)));
      reference.remove_prefix(slash);
    }
    return at;
  }

  static std::string unescape(std::string_view token) {
    std::string key;
    for (std::size_t i = 0; i < token.size(); ++i) {
      const bool escaped = token[i] == '~' && i + 1 < token.size();
      key += !escaped ? token[i] : token[++i] == '1' ? '/' : '~';
    }
    return key;
  }

  const Json& root_;
  ValueTypes types_;
  std::size_t budget_ = 100;
};

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

std::optional<Json> parse_or_nothing(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A number as models write it, leading zeros and a plus sign included, in JSON's spelling.
std::optional<std::string> number_json(std::string_view text) {
  std::string spelling;
  if (text.starts_with('-')) spelling.push_back('-');
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  while (text.size() > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9') text.remove_prefix(1);
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  spelling += text;
  const std::optional<Json> number = parse_or_nothing(spelling);
  if (!number || !number->is_number()) return std::nullopt;
  return number->number_text();
}

// 75 and 75.0 are the integer 75; 7.5 and 1e3 are none.
std::optional<std::string> integer_json(std::string_view text) {
  const std::size_t point = text.find('.');
  if (point != std::string_view::npos) {
    if (text.find_first_not_of('0', point + 1) != std::string_view::npos) return std::nullopt;
    text = text.substr(0, point);
  }
  if (text.find_first_not_of("+-0123456789") != std::string_view::npos) return std::nullopt;
  return number_json(text);
}

}  // namespace

ValueTypes value_types(const Json& schema, const Json& root) {
  TypeCollector collector(root);
  collector.visit(schema);
  return collector.types();
}

bool is_surely_text(const ValueTypes& types, std::string_view begin) {
  if (types.only_string()) return true;
  if (!types.unknown() && !types.string) return false;
  constexpr std::size_t kExamined = 256;  // a value with more white space in front waits for its end
  begin = strip_front(begin.substr(0, kExamined));
  if (begin.empty()) return false;
  if (begin[0] == '{') return !types.unknown() && !types.object;
  if (begin[0] == '[') return !types.unknown() && !types.array;
  if (!types.null) return true;
  constexpr std::string_view kNull = "null";
  if (begin.size() < kNull.size()) return !equals_ignoring_case(begin, kNull.substr(0, begin.size()));
  if (!equals_ignoring_case(begin.substr(0, kNull.size()), kNull)) return true;
  return !strip_front(begin.substr(kNull.size())).empty();
}

std::string argument_json(const ValueTypes& types, std::string_view value) {
  const std::string_view text = strip(value);
  if (!types.only_string() && !text.empty()) {
    if ((text[0] == '{' && (types.object || types.unknown())) ||
        (text[0] == '[' && (types.array || types.unknown()))) {
      if (const std::optional<Json> parsed = parse_or_nothing(text)) return parsed->dump_python();
    }
    // Beside a string type, only what a string would hardly mean is converted.
    if ((types.null || !(types.string || types.unknown())) && equals_ignoring_case(text, "null"))
      return "null";
    if (!types.string) {
      if (types.boolean && equals_ignoring_case(text, "true")) return "true";
      if (types.boolean && equals_ignoring_case(text, "false")) return "false";
      if (types.number) {
        if (const std::optional<std::string> number = number_json(text)) return *number;
      } else if (types.integer) {
        if (const std::optional<std::string> integer = integer_json(text)) return *integer;
      }
    }
  }
  std::string json;
  append_json_string(json, value);
  return json;
}

}  // namespace lily::text
