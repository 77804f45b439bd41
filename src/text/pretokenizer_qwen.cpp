// The Qwen3.5 / 3.6 pre-tokenizer pattern as a scanner; tests hold it against PCRE2 running the pattern.

#include "text/pretokenizer.hpp"
#include "text/pretokenizer_classes.hpp"
#include "text/utf8.hpp"

namespace lily::text {

const std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

constexpr bool is_space(CharClass c) { return c == CharClass::space || c == CharClass::newline; }
constexpr bool is_word(CharClass c) { return c == CharClass::letter || c == CharClass::mark; }

class QwenPretokenizer final : public Pretokenizer {
 public:
  std::size_t split(std::string_view text, std::size_t begin, std::span<std::size_t> ends) const override {
    const auto* const base = reinterpret_cast<const unsigned char*>(text.data());
    const auto* const end = base + text.size();
    const auto* at = base + begin;
    std::size_t count = 0;
    while (count < ends.size() && at < end) {
      at = piece_end(at, end);
      ends[count++] = static_cast<std::size_t>(at - base);
    }
    return count;
  }

 private:
  using Bytes = const unsigned char*;

  CharClass next_class(Bytes& at) const { return classes_[next_code_point(at)]; }

  // Behind the longest run from `at` on whose classes satisfy `belongs`.
  template <typename Belongs>
  Bytes run_end(Bytes at, Bytes end, Belongs belongs) const {
    while (at < end) {
      Bytes next = at;
      if (!belongs(next_class(next))) break;
      at = next;
    }
    return at;
  }

  Bytes word_end(Bytes at, Bytes end) const { return run_end(at, end, is_word); }

  static Bytes newlines_end(Bytes at, Bytes end) {
    while (at < end && (*at == '\r' || *at == '\n')) ++at;
    return at;
  }

  Bytes piece_end(Bytes at, Bytes end) const {
    Bytes next = at;
    const CharClass first = next_class(next);
    if (is_word(first)) return word_end(next, end);
    if (first == CharClass::number) return next;
    if (*at == '\'') {
      if (Bytes behind = contraction_end(next, end)) return behind;
    }
    // One character that is no line break may lead a word.
    if (first != CharClass::newline && next < end) {
      Bytes second = next;
      if (is_word(next_class(second))) return word_end(second, end);
    }
    const auto is_other = [](CharClass c) { return c == CharClass::other; };
    const Bytes others_begin = *at == ' ' ? next : at;
    const Bytes others_end = run_end(others_begin, end, is_other);
    if (others_end != others_begin) return newlines_end(others_end, end);
    return spaces_end(at, end);
  }

  // `at` is behind an apostrophe; nullptr when no contraction follows. Caseless matching takes U+017F for s.
  static Bytes contraction_end(Bytes at, Bytes end) {
    const auto lower = [&](std::ptrdiff_t i) { return i < end - at ? at[i] | 0x20 : 0; };
    const int first = lower(0);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 1;
    const int second = lower(1);
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
        (first == 'l' && second == 'l')) {
      return at + 2;
    }
    if (end - at >= 2 && at[0] == 0xC5 && at[1] == 0xBF) return at + 2;
    return nullptr;
  }

  // White space up to its last line break; without one, all of it at the end of the text, else all but its
  // last character, which may lead the next piece; a single one stands alone.
  Bytes spaces_end(Bytes at, Bytes end) const {
    Bytes last = at;
    Bytes behind_newline = nullptr;
    Bytes stop = at;
    while (stop < end) {
      Bytes next = stop;
      const CharClass c = next_class(next);
      if (!is_space(c)) break;
      if (c == CharClass::newline) behind_newline = next;
      last = stop;
      stop = next;
    }
    if (behind_newline != nullptr) return behind_newline;
    return stop == end || last == at ? stop : last;
  }

  const CharClass* classes_ = char_classes();
};

}  // namespace

std::unique_ptr<Pretokenizer> make_qwen_pretokenizer() { return std::make_unique<QwenPretokenizer>(); }

}  // namespace lily::text
