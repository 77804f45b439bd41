// Normalizing to NFC: the quick check against utf8proc normalizing everything.
#include <gtest/gtest.h>
#include <utf8proc.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "text/normalizer.hpp"
#include "tokenizer_fixture.hpp"

namespace lily::text {
namespace {

std::string nfc_of_all(const std::string& text) {
  utf8proc_uint8_t* normalized = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
  if (normalized == nullptr) throw std::runtime_error("utf8proc refuses the text");
  std::string result = reinterpret_cast<const char*>(normalized);
  std::free(normalized);
  return result;
}

void append_utf8(std::string& out, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

bool is_scalar(char32_t c) { return c > 0 && c < 0x110000 && (c < 0xD800 || c > 0xDFFF); }

TEST(TokenizerNormalizing, EveryCharacterAlone) {
  std::string storage;
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (!is_scalar(c)) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_EQ(to_nfc(text, storage), nfc_of_all(text)) << std::hex << std::size_t{c};
  }
}

TEST(TokenizerNormalizing, RandomMixturesOfMarksAndLetters) {
  // Ranges dense in decompositions: Latin, marks, Arabic, Indic, Hangul letters and syllables, compatibility
  // forms.
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x41, 0x7A},     {0xC0, 0x17F},    {0x300, 0x36F},     {0x300, 0x316},     {0x5B0, 0x5EA},
      {0x610, 0x670},   {0x900, 0xDFF},   {0x1100, 0x11FF},   {0x1E00, 0x1FFF},   {0x2126, 0x212B},
      {0xAC00, 0xD7A3}, {0xF900, 0xFAFF}, {0x110B9, 0x11131}, {0x1D15E, 0x1D1C0}, {0x20, 0x2F}};
  std::mt19937 random(7);
  std::string storage;
  for (int round = 0; round < 40000; ++round) {
    std::string text;
    const auto count = 1 + random() % 16;
    for (unsigned i = 0; i < count; ++i) {
      const auto& [low, high] = kRanges[random() % std::size(kRanges)];
      append_utf8(text, low + static_cast<char32_t>(random() % (high - low + 1)));
    }
    ASSERT_EQ(to_nfc(text, storage), nfc_of_all(text)) << testing::PrintToString(text);
  }
}

TEST(TokenizerNormalizing, NormalTextIsNotCopied) {
  std::string storage;
  for (const std::string_view text :
       {"plain", "na\u00efve", "\u4e2d\u6587", "\ud55c\uad6d", "\u0939\u093f\u0928\u094d"}) {
    EXPECT_EQ(to_nfc(text, storage).data(), text.data()) << text;
  }
}

TEST(TokenizerNormalizing, BothFormsEncodeAlike) {
  int checked = 0;
  for (const Json& line : read_json_lines(LILY_TEST_DATA "/cases.jsonl")) {
    const Json* pair = line.find("input")->find("encode_pair");
    if (pair == nullptr) continue;
    EXPECT_NE(pair->as_array()[0].as_string(), pair->as_array()[1].as_string());
    EXPECT_EQ(encode(real_tokenizer(), pair->as_array()[0].as_string()),
              encode(real_tokenizer(), pair->as_array()[1].as_string()));
    ++checked;
  }
  EXPECT_EQ(checked, 1);
}

// Marks in the worst order: utf8proc alone would need hours.
TEST(TokenizerNormalizing, LongRunOfUnorderedMarksIsNotQuadratic) {
  std::string text = "a";
  for (int i = 0; i < 500000; ++i) text.append("\u0301\u0316");
  std::string storage;
  const auto start = std::chrono::steady_clock::now();
  const std::string_view normalized = to_nfc(text, storage);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(normalized.substr(0, 4), "\u00e1\u0316");
  EXPECT_EQ(normalized.size(), text.size() - 1);
}

}  // namespace
}  // namespace lily::text
