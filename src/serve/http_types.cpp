// Header lookup of plain requests.
#include "serve/http_types.hpp"

#include <strings.h>

namespace lily::serve {

std::string_view HttpRequest::header(std::string_view name) const noexcept {
  for (const auto& [key, value] : headers) {
    if (key.size() == name.size() && strncasecmp(key.data(), name.data(), name.size()) == 0) return value;
  }
  return {};
}

}  // namespace lily::serve
