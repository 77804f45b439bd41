// Chooses the way to run a pre-tokenizer pattern.
#include "text/pretokenizer.hpp"

namespace lily::text {

std::unique_ptr<Pretokenizer> make_pretokenizer(const std::string& pattern) {
  return pattern == kQwenPattern ? make_qwen_pretokenizer() : make_regex_pretokenizer(pattern);
}

}  // namespace lily::text
