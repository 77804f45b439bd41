// No text makes encoding slow: time grows with the text, whatever it is made of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>

#include "lily/error.hpp"
#include "text/bpe_encode.hpp"
#include "text/tokenizer_file.hpp"
#include "tokenizer_fixture.hpp"

namespace lily::text {
namespace {

// Processor time, which other programs on the machine lengthen least.
double seconds_to_encode(const std::string& text) {
  double best = 1e9;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const std::clock_t start = std::clock();
    const std::vector<TokenId> ids = encode(real_tokenizer(), text);
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    EXPECT_FALSE(ids.empty());
  }
  return best;
}

void expect_linear(const std::string& unit, std::size_t bytes) {
  encode(real_tokenizer(), "warm");
  std::string half;
  while (half.size() * 2 < bytes) half.append(unit);
  std::string whole = half;
  whole.append(half);
  const double half_seconds = seconds_to_encode(half);
  const double seconds = seconds_to_encode(whole);
  EXPECT_LT(seconds, 20.0);
  EXPECT_LT(seconds, 3.5 * half_seconds + 0.05);
}

TEST(TokenizerLinear, OneWordOfTenMegabytes) { expect_linear("a", 10U << 20); }
TEST(TokenizerLinear, OneWordOfManyDifferentLetters) {
  std::mt19937 random(5);
  std::string word;
  for (int i = 0; i < 5000; ++i) word.push_back(static_cast<char>('a' + random() % 26));
  expect_linear(word, 10U << 20);
}
TEST(TokenizerLinear, SpacesOnly) { expect_linear(" ", 1U << 20); }
TEST(TokenizerLinear, SpacesAndLineBreaks) { expect_linear("          \n", 4U << 20); }
TEST(TokenizerLinear, SpacesBeforeEachWord) { expect_linear(std::string(5000, ' ').append("x"), 4U << 20); }
TEST(TokenizerLinear, PunctuationOnly) { expect_linear("!?", 4U << 20); }
TEST(TokenizerLinear, BrokenBytesOnly) { expect_linear("\xFF\xC3", 4U << 20); }
TEST(TokenizerLinear, BeginningsOfControlTokens) { expect_linear("<|im_start|", 4U << 20); }
TEST(TokenizerLinear, MarksOnly) { expect_linear("\u0301\u0316", 2U << 20); }

TEST(TokenizerLinear, TextBeyondTheLimitIsRefusedUnread) {
  constexpr std::size_t kBytes = (std::size_t{1} << 30) + 1;
  const std::unique_ptr<char, decltype(&std::free)> text(static_cast<char*>(std::calloc(kBytes, 1)),
                                                         &std::free);
  if (text == nullptr) GTEST_SKIP() << "no address space for 1 GiB";
  std::vector<TokenId> ids;
  try {
    tiny_tokenizer().encode({text.get(), kBytes}, ControlTokens::plain, ids);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::too_long);
  }
  EXPECT_TRUE(ids.empty());
}

// Words, one word, broken bytes and control tokens, each far longer than what is asked for.
TEST(TokenizerLinear, NoMoreIsEncodedThanAskedFor) {
  for (const std::string unit : {"word and word ", "a", "\xFF", "<|im_end|>"}) {
    std::string text;
    while (text.size() < (std::size_t{4} << 20)) text.append(unit);
    const auto seconds = [&](std::size_t most) {
      std::vector<TokenId> ids;
      const std::clock_t start = std::clock();
      try {
        real_tokenizer().encode(text, ControlTokens::match, ids, most);
        EXPECT_GT(most, 1000U) << unit;
      } catch (const Error& error) {
        EXPECT_EQ(most, 1000U) << unit;
        EXPECT_EQ(error.kind(), ErrorKind::too_long);
        EXPECT_NE(std::string(error.what()).find("1000"), std::string::npos);
      }
      return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    };
    const double whole = seconds(text.size());
    const double few = std::min(seconds(1000), seconds(1000));
    EXPECT_LT(few, whole / 10) << unit;
  }
}

TEST(TokenizerLinear, AsManyAsAskedForAreEncoded) {
  const std::string text = "Word and word \xFF<|im_end|> again";
  const std::vector<TokenId> all = encode(real_tokenizer(), text, ControlTokens::match);
  std::vector<TokenId> ids;
  real_tokenizer().encode(text, ControlTokens::match, ids, all.size());
  EXPECT_EQ(ids, all);
  for (std::size_t most = 0; most < all.size(); ++most) {
    ids.clear();
    EXPECT_THROW(real_tokenizer().encode(text, ControlTokens::match, ids, most), Error) << most;
  }
}

// Plain BPE as it is defined: look for the lowest rank, leftmost first, until none is left.
std::vector<TokenId> encode_by_definition(const BpeMerges& merges, std::string_view piece) {
  std::vector<TokenId> ids;
  for (const char c : piece) ids.push_back(merges.byte_id(static_cast<unsigned char>(c)));
  while (true) {
    MergeRank best = kNoMerge;
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeRank rank = merges.rank(ids[i], ids[i + 1]);
      if (rank < best) {
        best = rank;
        place = i;
      }
    }
    if (best == kNoMerge) return ids;
    ids[place] = merges.result(best);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

// A vocabulary whose merges stand in an order no training would give: a merge may open a lower rank.
BpeMerges shuffled_merges(std::mt19937& random) {
  std::array<TokenId, 256> byte_ids{};
  std::vector<std::uint32_t> lengths(256, 1);
  std::vector<std::string> tokens;
  for (int i = 0; i < 256; ++i) {
    byte_ids[static_cast<std::size_t>(i)] = i;
    tokens.emplace_back(1, static_cast<char>(i));
  }
  std::vector<Merge> merges;
  std::vector<TokenId> usable{'a', 'b', 'c'};
  for (int i = 0; i < 40; ++i) {
    const TokenId left = usable[random() % usable.size()];
    const TokenId right = usable[random() % usable.size()];
    std::string token = tokens[static_cast<std::size_t>(left)];
    token.append(tokens[static_cast<std::size_t>(right)]);
    auto known = static_cast<TokenId>(std::find(tokens.begin(), tokens.end(), token) - tokens.begin());
    if (static_cast<std::size_t>(known) == tokens.size()) {
      lengths.push_back(static_cast<std::uint32_t>(token.size()));
      tokens.push_back(token);
      usable.push_back(known);
    }
    merges.push_back({left, right, known});
  }
  std::shuffle(merges.begin(), merges.end(), random);
  return {byte_ids, merges, lengths};
}

TEST(TokenizerLinear, BothWaysEqualTheDefinition) {
  std::mt19937 random(17);
  for (int vocabulary = 0; vocabulary < 60; ++vocabulary) {
    const BpeMerges merges = shuffled_merges(random);
    LongPieceEncoder long_piece;
    for (int round = 0; round < 60; ++round) {
      std::string piece;
      const auto size = 1 + random() % kShortPiece;
      for (unsigned i = 0; i < size; ++i) piece.push_back(static_cast<char>('a' + random() % 3));
      const std::vector<TokenId> expected = encode_by_definition(merges, piece);

      std::vector<TokenId> ids(piece.size());
      ids.resize(encode_short_piece(merges, piece, ids.data()));
      ASSERT_EQ(ids, expected) << piece;
      ids.resize(piece.size());
      ids.resize(long_piece.encode(merges, piece, ids.data()));
      ASSERT_EQ(ids, expected) << piece;
    }
  }
}

TEST(TokenizerLinear, LongPiecesOfTheRealVocabularyEqualTheDefinition) {
  const std::string json = read_text(kRealTokenizerFile);
  const TokenizerFile file = read_tokenizer_file({json, "tokenizer.json"}, nullptr);
  const BpeMerges merges(file.byte_ids, file.merges, file.vocabulary.lengths());
  const std::string text = read_text(LILY_TEST_DATA "/qwen3.6-chat-template.jinja");
  LongPieceEncoder long_piece;
  for (std::size_t begin = 0; begin + 600 < text.size(); begin += 311) {
    const std::string_view piece = std::string_view(text).substr(begin, 600);
    std::vector<TokenId> ids(piece.size());
    ids.resize(long_piece.encode(merges, piece, ids.data()));
    ASSERT_EQ(ids, encode_by_definition(merges, piece));
  }
}

}  // namespace
}  // namespace lily::text
