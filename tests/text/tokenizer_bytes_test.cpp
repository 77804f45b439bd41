// Any bytes in, the same bytes or well-formed text out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "text/utf8.hpp"
#include "tokenizer_fixture.hpp"

namespace lily::text {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string bytes;
  for (const TokenId id : ids) bytes.append(tokenizer.bytes(id));
  return bytes;
}

std::string random_bytes(std::mt19937& random, std::size_t size) {
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() & 0xFFU);
  return text;
}

TEST(TokenizerBytes, RandomBytesComeBack) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string text = random_bytes(random, random() % 200);
    const std::string decoded = real_tokenizer().decode(encode(real_tokenizer(), text));
    ASSERT_EQ(valid_utf8_prefix(decoded), decoded.size());
    // Below U+0300, whose lead bytes end before 0xCC, nothing is normalized: the bytes come back exactly.
    for (char& c : text) {
      if (static_cast<unsigned char>(c) >= 0xCC) c = static_cast<char>(c & 0x7F);
    }
    ASSERT_EQ(bytes_of(real_tokenizer(), encode(real_tokenizer(), text)), text);
  }
}

TEST(TokenizerBytes, BrokenBytesAreTokensOfTheirOwn) {
  const std::string text = "caf\xC3 \xFF\xFE\xE2\x82";
  const std::vector<TokenId> ids = encode(real_tokenizer(), text);
  EXPECT_EQ(bytes_of(real_tokenizer(), ids), text);
  std::vector<std::string> tokens;
  for (const TokenId id : ids) tokens.emplace_back(real_tokenizer().bytes(id));
  EXPECT_THAT(tokens, testing::IsSupersetOf({"\xC3", "\xFF", "\xFE", "\xE2", "\x82"}));
  EXPECT_EQ(real_tokenizer().decode(ids), "caf\uFFFD \uFFFD\uFFFD\uFFFD");
}

TEST(TokenizerBytes, NulIsOrdinaryText) {
  int checked = 0;
  for (const Json& line : read_json_lines(LILY_TEST_DATA "/cases.jsonl")) {
    const Json* text = line.find("input")->find("encode_decode");
    if (text == nullptr) continue;
    EXPECT_EQ(real_tokenizer().decode(encode(real_tokenizer(), text->as_string())),
              line.find("expect")->find("decode")->as_string());
    ++checked;
  }
  EXPECT_EQ(checked, 1);
}

TEST(TokenizerBytes, EncodingAppends) {
  std::vector<TokenId> ids{1, 2};
  real_tokenizer().encode("Hello", ControlTokens::plain, ids);
  EXPECT_THAT(ids, testing::ElementsAre(1, 2, 9419));
}

TEST(TokenizerBytes, ThreadsShareOneTokenizer) {
  const Json corpus = read_json(LILY_TEST_DATA "/qwen3.6-tokenizer-corpus.json");
  const std::string& text = corpus.find("text")->as_string();
  const std::vector<TokenId> expected = encode(real_tokenizer(), text);
  std::vector<std::vector<TokenId>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) result = encode(real_tokenizer(), text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results, testing::Each(expected));
}

std::string joined_stream(const std::vector<std::string>& chunks, bool finish) {
  Utf8Stream stream;
  std::string joined;
  const auto take = [&](const std::string& delta) {
    EXPECT_EQ(valid_utf8_prefix(delta), delta.size()) << testing::PrintToString(delta);
    joined.append(delta);
  };
  for (const std::string& chunk : chunks) take(stream.push(chunk));
  if (finish) take(stream.finish());
  return joined;
}

TEST(Utf8StreamTest, CasesOfCutCharacters) {
  int checked = 0;
  for (const Json& line : read_json_lines(LILY_TEST_DATA "/cases.jsonl")) {
    const Json* tokens = line.find("input")->find("byte_tokens");
    if (tokens == nullptr) continue;
    std::vector<std::string> chunks;
    for (const Json& token : tokens->as_array()) {
      chunks.emplace_back();
      for (const TokenId byte : token_ids(token)) chunks.back().push_back(static_cast<char>(byte));
    }
    EXPECT_EQ(joined_stream(chunks, line.find("input")->find("end") != nullptr),
              line.find("expect")->find("joined")->as_string())
        << line.find("id")->as_string();
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

TEST(Utf8StreamTest, AnyCutGivesTheTextOfTheWhole) {
  std::mt19937 random(3);
  const std::string_view interesting = "a\x80\x9F\xA0\xBF\xC0\xC2\xE0\xE2\xED\xEF\xF0\xF4\xF5\xFF";
  for (int round = 0; round < 5000; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes.push_back(interesting[random() % interesting.size()]);
    const std::string whole = joined_stream({bytes}, true);
    std::vector<std::string> single;
    for (const char c : bytes) single.emplace_back(1, c);
    ASSERT_EQ(joined_stream(single, true), whole) << testing::PrintToString(bytes);
    const std::size_t cut = random() % bytes.size();
    ASSERT_EQ(joined_stream({bytes.substr(0, cut), bytes.substr(cut)}, true), whole);
  }
}

TEST(Utf8StreamTest, OneReplacementForEachMaximalBrokenPrefix) {
  // The example of the Unicode standard, chapter 3, table 3-8 and its neighbours.
  EXPECT_EQ(joined_stream({"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                           "A"},
                          true),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(joined_stream({"\xED\xA0\x80"
                           "A"},
                          true),
            "\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(joined_stream({"\xF4\x91\x92\x93\xFF"
                           "A"},
                          true),
            "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
  EXPECT_EQ(joined_stream({"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                           "A"},
                          true),
            "\uFFFD\uFFFD\uFFFD\uFFFD"
            "A");
}

TEST(Utf8StreamTest, HoldsNothingThatCannotCompleteACharacter) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("\x28"), std::string(kReplacement).append("("));
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(stream.push("\xF0\x9F"), "");
  EXPECT_EQ(stream.finish(), kReplacement);
  EXPECT_EQ(stream.finish(), "");
}

}  // namespace
}  // namespace lily::text
