// Scanning and reading of a JSON-style tool call.
#include "text/json_call.hpp"

#include "lily/error.hpp"

namespace lily::text {

std::size_t JsonObjectScanner::scan(std::string_view text, std::size_t at) {
  while (at < text.size() && state_ == State::open) {
    const char c = text[at];
    const bool control = static_cast<unsigned char>(c) < ' ';
    if (in_string_) {
      if (control) {
        state_ = State::broken;
        return at;
      }
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (--depth_ == 0) state_ = State::complete;
    } else if (c == '<') {  // the markup goes on: what came before was no object
      state_ = State::broken;
      return at;
    }
    ++at;
  }
  return at;
}

std::optional<JsonCall> read_json_call(std::string_view object) {
  try {
    const Json call = Json::parse(object);
    const Json* name = call.find("name");
    const Json* arguments = call.find("arguments");
    if (name == nullptr || !name->is_string() || name->as_string().empty() || arguments == nullptr) return {};
    Json value = arguments->is_string() ? Json::parse(arguments->as_string()) : *arguments;
    if (!value.is_object()) return {};
    return JsonCall{.name = name->as_string(), .arguments = std::move(value)};
  } catch (const Error&) {
    return {};
  }
}

}  // namespace lily::text
