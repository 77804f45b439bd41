// Text of token bytes as they come; the declaration is in tokenizer.hpp.
#include "text/tokenizer.hpp"
#include "text/utf8.hpp"

namespace lily::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  std::string joined;
  if (!held_.empty()) {
    joined.swap(held_);
    joined.append(bytes);
    bytes = joined;
  }
  std::string text;
  text.reserve(bytes.size());
  while (true) {
    const std::size_t valid = valid_utf8_prefix(bytes);
    text.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    const Utf8Char next = read_utf8(bytes);
    if (next.status == Utf8Status::incomplete) {
      held_.assign(bytes);
      break;
    }
    text.append(kReplacement);
    bytes.remove_prefix(next.length);
  }
  return text;
}

std::string Utf8Stream::finish() {
  std::string text;
  if (!held_.empty()) text = kReplacement;
  held_.clear();
  return text;
}

}  // namespace lily::text
