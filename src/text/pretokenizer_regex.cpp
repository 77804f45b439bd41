// Any pre-tokenizer pattern, compiled to machine code by PCRE2.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>

#include "lily/error.hpp"
#include "text/pretokenizer.hpp"
#include "text/utf8.hpp"

namespace lily::text {
namespace {

// A pattern may backtrack this often for one piece, and use this much memory while it does.
constexpr std::uint32_t kMatchLimit = 50'000'000;
constexpr std::size_t kJitStackBytes = 8U << 20;
constexpr std::size_t kJitStackStartBytes = 64U << 10;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>>;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(code, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

// A pattern as a message shows it: a file may hold megabytes of one.
std::string shown(std::string_view pattern) {
  const std::string_view beginning = utf8_beginning(pattern, 200);
  return std::string(beginning) + (beginning.size() < pattern.size() ? "..." : "");
}

// What matching needs besides the compiled pattern; the pattern is shared by threads, this is not.
class Matcher {
 public:
  explicit Matcher(const pcre2_code& code)
      : code_(code),
        match_(pcre2_match_data_create_from_pattern(&code, nullptr)),
        context_(pcre2_match_context_create(nullptr)) {
    if (!match_ || !context_) throw std::bad_alloc();
    pcre2_set_match_limit(context_.get(), kMatchLimit);
  }

  int match(std::string_view text, std::size_t from) {
    const auto run = [&] {
      return pcre2_match(&code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                         PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match_.get(), context_.get());
    };
    const int result = run();
    if (result != PCRE2_ERROR_JIT_STACKLIMIT || stack_) return result;
    stack_.reset(pcre2_jit_stack_create(kJitStackStartBytes, kJitStackBytes, nullptr));
    if (!stack_) throw std::bad_alloc();
    pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
    return run();
  }

  std::size_t begin() const { return pcre2_get_ovector_pointer(match_.get())[0]; }
  std::size_t end() const { return pcre2_get_ovector_pointer(match_.get())[1]; }

 private:
  const pcre2_code& code_;
  MatchData match_;
  MatchContext context_;
  JitStack stack_;  // only for matches that need more than the 32 KiB that come with every one
};

class RegexPretokenizer final : public Pretokenizer {
 public:
  explicit RegexPretokenizer(const std::string& pattern) : pattern_(pattern) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
    if (code_ == nullptr) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("pattern '{}' at byte {}: {}", shown(pattern), offset, message_of(error)));
    }
    // Without just-in-time compilation (a machine that forbids it) the same pattern is interpreted.
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
  }

  std::size_t split(std::string_view text, std::size_t begin, std::span<std::size_t> ends) const override {
    Matcher matcher(*code_);
    std::size_t count = 0;
    while (count < ends.size() && begin < text.size()) {
      const int result = matcher.match(text, begin);
      if (result < 0 && result != PCRE2_ERROR_NOMATCH) {
        throw Error(ErrorKind::bad_input, fmt::format("pre-tokenizer pattern '{}' at byte {} of the text: {}",
                                                      shown(pattern_), begin, message_of(result)));
      }
      const std::size_t match_begin = result < 0 ? text.size() : matcher.begin();
      // Text in front of the match is a piece of its own; the match is found again by the next round.
      begin = match_begin > begin ? match_begin : matcher.end();
      ends[count++] = begin;
    }
    return count;
  }

 private:
  std::string pattern_;
  Code code_;
};

}  // namespace

std::unique_ptr<Pretokenizer> make_regex_pretokenizer(const std::string& pattern) {
  return std::make_unique<RegexPretokenizer>(pattern);
}

}  // namespace lily::text
