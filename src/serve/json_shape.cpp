// Counts the values of a JSON text in one pass: commas and opening brackets outside of strings.
#include "serve/json_shape.hpp"

#include <fmt/format.h>

#include "lily/error.hpp"

namespace lily::serve {

void check_json_values(std::string_view text, std::size_t limit) {
  std::size_t values = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == ',' || c == '[' || c == '{') {
      ++values;
    }
  }
  if (values > limit) {
    throw Error(ErrorKind::bad_input,
                fmt::format("the request body holds {} JSON values; the limit is {}", values, limit));
  }
}

}  // namespace lily::serve
