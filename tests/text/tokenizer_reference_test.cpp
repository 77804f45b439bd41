// Ids and text equal those of the official tokenizers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/tokenizer_added_tokens.hpp"
#include "tokenizer_fixture.hpp"

namespace lily::text {
namespace {

void expect_case(const Tokenizer& tokenizer, const Json& line) {
  const std::string& text = line.find("text")->as_string();
  const std::vector<TokenId> ids = token_ids(*line.find("ids"));
  EXPECT_EQ(encode(tokenizer, text, ControlTokens::match), ids) << testing::PrintToString(text);
  EXPECT_EQ(tokenizer.decode(ids), line.find("decoded")->as_string());
}

TEST(TokenizerReference, RandomMixturesOfScripts) {
  const auto lines = read_json_lines(LILY_TEST_UNPACKED "/tokenizer/fuzz-cases.jsonl");
  EXPECT_EQ(lines.size(), 2500U);
  for (const Json& line : lines) expect_case(real_tokenizer(), line);
}

TEST(TokenizerReference, SmallVocabulary) {
  for (const Json& line : read_json_lines(LILY_TEST_DATA "/golden/tokenizer-cases.jsonl")) {
    expect_case(tiny_tokenizer(), line);
  }
}

TEST(TokenizerReference, PublishedVectors) {
  const Json vectors = read_json(LILY_TEST_DATA "/qwen-tokenizer-vectors.json");
  for (const Json& vector : vectors.find("text_vectors")->as_array()) {
    EXPECT_EQ(encode(real_tokenizer(), vector.find("text")->as_string(), ControlTokens::match),
              token_ids(*vector.find("ids")))
        << vector.find("name")->as_string();
  }
}

TEST(TokenizerReference, CorpusBeginsWithTheOfficialIds) {
  const Json corpus = read_json(LILY_TEST_DATA "/qwen3.6-tokenizer-corpus.json");
  const std::vector<TokenId> expected = token_ids(*corpus.find("ids_prefix"));
  std::vector<TokenId> ids = encode(real_tokenizer(), corpus.find("text")->as_string());
  ASSERT_GT(ids.size(), expected.size());
  ids.resize(expected.size());
  EXPECT_EQ(ids, expected);
}

TEST(TokenizerReference, KnownFacts) {
  const Json facts = read_json(LILY_TEST_DATA "/qwen36-tokenizer-facts.json");
  const auto expect_pairs = [&](const char* list) {
    for (const Json& pair : facts.find(list)->as_array()) {
      const std::string& text = pair.as_array()[0].as_string();
      const auto id = static_cast<TokenId>(pair.as_array()[1].as_integer().value());
      EXPECT_THAT(encode(real_tokenizer(), text, ControlTokens::match), testing::ElementsAre(id)) << text;
    }
  };
  for (const char* list : {"certain", "special_certain", "special_inferred", "inferred"}) expect_pairs(list);
  for (const Json& sequence : facts.find("sequences")->as_array()) {
    if (sequence.find("text") == nullptr) continue;  // given as a rule; the next test follows it
    EXPECT_EQ(encode(real_tokenizer(), sequence.find("text")->as_string(), ControlTokens::match),
              token_ids(*sequence.find("ids")));
  }
}

TEST(TokenizerReference, DigitsNeverMerge) {
  std::string text;
  for (int i = 1; i < 700; ++i) text.append(i > 1 ? " " : "").append(std::to_string(i));
  std::vector<TokenId> expected;
  for (const char c : text) expected.push_back(c == ' ' ? 220 : 15 + (c - '0'));
  EXPECT_EQ(expected.size(), 2687U);
  EXPECT_EQ(encode(real_tokenizer(), text), expected);
}

TEST(TokenizerReference, AddedTokensHaveTheirPublishedIds) {
  EXPECT_EQ(real_tokenizer().size(), 248077U);
  EXPECT_EQ(real_tokenizer().control_id("<|im_end|>"), 248046);
  EXPECT_EQ(real_tokenizer().control_id("<tts_text_bos>"), 248073);
  EXPECT_EQ(real_tokenizer().control_id("<tts_text_bos_single>"), 248075);
  EXPECT_EQ(real_tokenizer().control_id("<tts_text_bos"), std::nullopt);
  EXPECT_EQ(real_tokenizer().control_id(""), std::nullopt);
  EXPECT_TRUE(real_tokenizer().is_control(248076));
  EXPECT_FALSE(real_tokenizer().is_control(248077));
  EXPECT_FALSE(real_tokenizer().is_control(248043));
  EXPECT_EQ(real_tokenizer().bytes(248068), "<think>");
  EXPECT_EQ(real_tokenizer().bytes(-1), "");
  EXPECT_EQ(real_tokenizer().bytes(248077), "");
}

TEST(TokenizerReference, PlainTextNeverBecomesAControlToken) {
  for (TokenId control = 248044; control <= 248076; ++control) {
    std::string literal = "a";
    literal.append(real_tokenizer().bytes(control)).append("b");
    EXPECT_THAT(encode(real_tokenizer(), literal, ControlTokens::match), testing::Contains(control));
    const std::vector<TokenId> plain = encode(real_tokenizer(), literal, ControlTokens::plain);
    EXPECT_THAT(plain, testing::Each(testing::Lt(248044)));
    EXPECT_EQ(real_tokenizer().decode(plain), literal);
  }
}

TEST(TokenizerReference, TheLongestAddedTokenOfTheLeftmostPlaceWins) {
  const AddedTokens tokens({{1, "<a"}, {2, "<ab>"}, {3, "[x]"}, {4, "b>["}});
  const auto found = [&](std::string_view text, std::size_t from) {
    const auto match = tokens.find(text, from);
    return match ? std::pair(match->begin, match->token->id) : std::pair(std::string_view::npos, TokenId{-1});
  };
  EXPECT_EQ(found("..<ab>[x]", 0), std::pair(std::size_t{2}, TokenId{2}));
  EXPECT_EQ(found("..<ab>[x]", 3), std::pair(std::size_t{4}, TokenId{4}));
  EXPECT_EQ(found("..<ab>[x]", 5), std::pair(std::size_t{6}, TokenId{3}));
  EXPECT_EQ(found("..<ac[x", 0), std::pair(std::size_t{2}, TokenId{1}));
  EXPECT_EQ(found("..<ac[x", 3), std::pair(std::string_view::npos, TokenId{-1}));
  EXPECT_EQ(AddedTokens({}).find("<a", 0).has_value(), false);
}

TEST(TokenizerReference, DecodeNamesAnIdWithoutToken) {
  EXPECT_THAT(
      [] {
        real_tokenizer().decode(std::vector<TokenId>{9419, 248077});
      },
      testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("248077")));
  EXPECT_THROW(real_tokenizer().decode(std::vector<TokenId>{-1}), std::runtime_error);
}

}  // namespace
}  // namespace lily::text
