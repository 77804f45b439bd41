// Cutting text into pieces: the hand-written scanner against PCRE2, and what other patterns get.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

#include "lily/error.hpp"
#include "text/pretokenizer.hpp"
#include "text/pretokenizer_classes.hpp"
#include "tokenizer_fixture.hpp"

namespace lily::text {
namespace {

constexpr char32_t kMongolianVowelSeparator =
    0x180E;  // white space to PCRE2's \s, but not to Unicode since 6.3

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
    return;
  }
  const unsigned tails = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr std::array<unsigned, 4> kLeads{0, 0xC0, 0xE0, 0xF0};
  out.push_back(static_cast<char>(kLeads[tails] | (c >> (6 * tails))));
  for (unsigned i = tails; i-- > 0;) out.push_back(static_cast<char>(0x80U | ((c >> (6 * i)) & 0x3FU)));
}

std::vector<std::string> pieces_of(const Pretokenizer& pretokenizer, std::string_view text,
                                   std::size_t batch) {
  std::vector<std::string> pieces;
  std::vector<std::size_t> ends(batch);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t count = pretokenizer.split(text, begin, ends);
    for (std::size_t i = 0; i < count; ++i) {
      pieces.emplace_back(text.substr(begin, ends[i] - begin));
      begin = ends[i];
    }
  }
  return pieces;
}

// The class PCRE2 sees a character in, asked one pattern at a time.
class RegexClasses {
 public:
  CharClass of(char32_t c) const {
    std::string text;
    append_utf8(text, c);
    text.append("x");  // a match of one piece then ends before it
    const auto matches = [&](const std::unique_ptr<Pretokenizer>& pattern) {
      std::array<std::size_t, 1> end{};
      pattern->split(text, 0, end);
      return end[0] == text.size() - 1;
    };
    if (matches(newline_)) return CharClass::newline;
    if (matches(space_)) return CharClass::space;
    if (matches(letter_)) return CharClass::letter;
    if (matches(mark_)) return CharClass::mark;
    if (matches(number_)) return CharClass::number;
    return CharClass::other;
  }

  // Unassigned in PCRE2's version of Unicode.
  bool unassigned(char32_t c) const {
    std::string text;
    append_utf8(text, c);
    text.append("x");
    std::array<std::size_t, 1> end{};
    unassigned_->split(text, 0, end);
    return end[0] == text.size() - 1;
  }

 private:
  static std::unique_ptr<Pretokenizer> exactly(const char* atom) {
    return make_regex_pretokenizer(std::string("^") + atom + "|.+");
  }
  std::unique_ptr<Pretokenizer> newline_ = exactly("[\\r\\n]");
  std::unique_ptr<Pretokenizer> space_ = exactly("\\s");
  std::unique_ptr<Pretokenizer> letter_ = exactly("\\p{L}");
  std::unique_ptr<Pretokenizer> mark_ = exactly("\\p{M}");
  std::unique_ptr<Pretokenizer> number_ = exactly("\\p{N}");
  std::unique_ptr<Pretokenizer> unassigned_ = exactly("\\p{Cn}");
};

// Characters on which utf8proc and PCRE2 disagree because their versions of Unicode do.
const std::set<char32_t>& disputed() {
  static const std::set<char32_t> found = [] {
    const RegexClasses regex;
    std::set<char32_t> characters;
    for (char32_t c = 0; c < 0x110000; ++c) {
      if (c >= 0xD800 && c <= 0xDFFF) continue;
      // Planes 3 to 13 are ideographs and nothing yet; every 61st character stands for them.
      if (c >= 0x32400 && c < 0xE0000 && c % 61 != 0) continue;
      if (c >= 0xF0000 && c % 61 != 0) continue;  // private use
      if (regex.of(c) != char_classes()[c]) characters.insert(c);
    }
    return characters;
  }();
  return found;
}

TEST(TokenizerSplitting, ClassesAgreeWithPcreOnAssignedCharacters) {
  const RegexClasses regex;
  for (const char32_t c : disputed()) {
    EXPECT_TRUE(c == kMongolianVowelSeparator || regex.unassigned(c)) << "U+" << std::hex << std::size_t{c};
  }
  EXPECT_EQ(char_classes()[kMongolianVowelSeparator], CharClass::other);
}

TEST(TokenizerSplitting, ScannerEqualsThePattern) {
  const auto scanner = make_qwen_pretokenizer();
  const auto regex = make_regex_pretokenizer(std::string(kQwenPattern));
  const std::array<std::string_view, 34> fragments{"a",       "B",
                                                   "\u00e9",  "\u4e2d",
                                                   "\u0301",  "\u093f",
                                                   "7",       "\u0664",
                                                   "\u2167",  " ",
                                                   "  ",      "\t",
                                                   "\n",      "\r",
                                                   "\r\n",    "\u00a0",
                                                   "\u2028",  "\u3000",
                                                   "\u0085",  "'",
                                                   "'s",      "'LL",
                                                   "'\u017f", "'Re",
                                                   ".",       "!?",
                                                   "_",       "(",
                                                   "\u20ac",  "\U0001F600",
                                                   "\u200d",  "'t",
                                                   "\u212a",  std::string_view("\0", 1)};
  std::mt19937 random(20260729);
  for (int round = 0; round < 30000; ++round) {
    std::string text;
    const auto count = random() % 24;
    for (unsigned i = 0; i < count; ++i) {
      if (random() % 8 != 0) {
        text.append(fragments[random() % fragments.size()]);
        continue;
      }
      const auto c = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0x110000));
      if ((c < 0xD800 || c > 0xDFFF) && c < 0x32400 && !disputed().contains(c)) append_utf8(text, c);
    }
    ASSERT_EQ(pieces_of(*scanner, text, 3), pieces_of(*regex, text, 5)) << testing::PrintToString(text);
  }
}

TEST(TokenizerSplitting, CasesOfTheOfficialRule) {
  int checked = 0;
  for (const Json& line : read_json_lines(LILY_TEST_DATA "/cases.jsonl")) {
    const Json* text = line.find("input")->find("pretokenize");
    if (text == nullptr) continue;
    std::vector<std::string> pieces;
    for (const Json& piece : line.find("expect")->find("pieces")->as_array())
      pieces.push_back(piece.as_string());
    EXPECT_EQ(tiny_tokenizer().pretokenize(text->as_string()), pieces) << line.find("id")->as_string();
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

TEST(TokenizerSplitting, BrokenBytesStandAlone) {
  EXPECT_THAT(tiny_tokenizer().pretokenize("ab \xE2\x82 c\xFF"),
              testing::ElementsAre("ab", " ", "\xE2", "\x82", " c", "\xFF"));
}

TEST(TokenizerSplitting, TextOutsideAnyMatchIsAPieceOfItsOwn) {
  const auto digits = make_pretokenizer("[0-9]+");
  EXPECT_THAT(pieces_of(*digits, "ab12c3", 4), testing::ElementsAre("ab", "12", "c", "3"));
  EXPECT_THAT(pieces_of(*make_pretokenizer("x*"), "axxb", 4), testing::ElementsAre("a", "xx", "b"));
}

TEST(TokenizerSplitting, MalformedPatternIsNamed) {
  EXPECT_THAT([] { make_pretokenizer("a(b"); }, testing::ThrowsMessage<Error>(testing::HasSubstr("a(b")));
}

TEST(TokenizerSplitting, LongPatternIsNamedByItsBeginning) {
  std::string beginning = "(";
  while (beginning.size() + 2 <= 200)
    beginning += "\xC3\xA9";  // 199 bytes; the next one would be half a letter
  const std::string pattern = beginning + "\xC3\xA9" + std::string(1 << 20, 'a');
  EXPECT_THAT([&] { make_pretokenizer(pattern); },
              testing::ThrowsMessage<Error>(testing::StartsWith("pattern '" + beginning + "...' at byte ")));
}

TEST(TokenizerSplitting, RunawayPatternEnds) {
  const auto runaway = make_pretokenizer("(?:a+)+b|c");
  EXPECT_THROW(pieces_of(*runaway, std::string(64, 'a'), 4), Error);
}

}  // namespace
}  // namespace lily::text
