// Cuts text into the pieces that BPE works on, by the pattern of a tokenizer.json.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lily::text {

// Thread-safe after construction.
class Pretokenizer {
 public:
  Pretokenizer() = default;
  Pretokenizer(const Pretokenizer&) = delete;
  Pretokenizer& operator=(const Pretokenizer&) = delete;
  virtual ~Pretokenizer() = default;

  // Fills `ends` with where the pieces end that follow each other from `begin` on; returns how many it wrote,
  // fewer than ends.size() only at the end of the text. The text is valid UTF-8, `begin` the end of a piece.
  // Throws Error(bad_input) when the pattern needs more than its limit of steps or memory on this text.
  virtual std::size_t split(std::string_view valid_utf8, std::size_t begin,
                            std::span<std::size_t> ends) const = 0;
};

// Any pattern, run by PCRE2; text that it does not match becomes pieces of its own. Throws Error(bad_input)
// naming the pattern's fault. PCRE2's \s takes U+180E, which is no white space to Unicode and to the scanner
// below.
std::unique_ptr<Pretokenizer> make_regex_pretokenizer(const std::string& pattern);

// The pattern of Qwen3.5 and Qwen3.6, written by hand: many times as fast as a regular expression.
extern const std::string_view kQwenPattern;
std::unique_ptr<Pretokenizer> make_qwen_pretokenizer();

// The fastest of them that serves `pattern`.
std::unique_ptr<Pretokenizer> make_pretokenizer(const std::string& pattern);

}  // namespace lily::text
