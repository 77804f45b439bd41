// Wrong tokenizer files are refused by name; damaged ones never crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "lily/error.hpp"
#include "text/tokenizer_file.hpp"
#include "tokenizer_fixture.hpp"

namespace lily::text {
namespace {

using testing::HasSubstr;

// On one line, with a space behind each comma and colon.
const std::string& valid_text() {
  static const std::string text = read_json(kTinyCheckpoint / "tokenizer.json").dump_python();
  return text;
}

// `text` with its first `from` replaced.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("the file does not hold " + std::string(from));
  return text.replace(at, from.size(), to);
}

void expect_refusal(const std::string& json, ErrorKind kind, const std::string& message) {
  try {
    Tokenizer::parse(json, "folder/tokenizer.json");
    ADD_FAILURE() << "accepted instead of: " << message;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("folder/tokenizer.json"));
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

struct Fault {
  std::string_view from;
  std::string_view to;
  std::string message;
};

TEST(TokenizerFileRefusal, OtherKindsOfTokenizersAreUnsupported) {
  const Fault faults[] = {
      {R"("type": "BPE")", R"("type": "Unigram")", R"(model.type is "Unigram")"},
      {R"("dropout": null)", R"("dropout": 0.1)", "model.dropout is 0.1"},
      {R"("continuing_subword_prefix": null)", R"("continuing_subword_prefix": "##")",
       "continuing_subword_prefix"},
      {R"("end_of_word_suffix": null)", R"("end_of_word_suffix": "</w>")", "model.end_of_word_suffix"},
      {R"("byte_fallback": false)", R"("byte_fallback": true)", "model.byte_fallback is true"},
      {R"("ignore_merges": false)", R"("ignore_merges": true)", "model.ignore_merges is true"},
      {R"("type": "NFC")", R"("type": "NFKC")", R"(normalizer.type is "NFKC")"},
      {R"("type": "NFC")", R"("type": "Sequence", "normalizers": [{"type": "NFD"}])", R"(is "NFD")"},
      {R"("type": "Split")", R"("type": "Digits")", R"(pre_tokenizer is "Digits", "ByteLevel")"},
      {R"("Regex")", R"("String")", "pattern.Regex"},
      {R"("Isolated")", R"("Removed")", R"(behavior is "Removed")"},
      {R"("invert": false)", R"("invert": true)", "invert is true"},
      {R"("add_prefix_space": false)", R"("add_prefix_space": true)", "add_prefix_space is true"},
      {R"("use_regex": false)", R"("use_regex": true)", "use_regex is true"},
      {R"("decoder": {"type": "ByteLevel")", R"("decoder": {"type": "WordPiece")",
       R"(decoder.type is "WordPiece")"},
      {R"("post_processor": null)", R"("post_processor": {"type": "TemplateProcessing"})",
       "post_processor.type"},
      {R"("lstrip": false)", R"("lstrip": true)", R"("<|endoftext|>" asks for lstrip)"},
      {R"("normalized": false)", R"("normalized": true)", "normalized"},
  };
  for (const Fault& fault : faults) {
    expect_refusal(replaced(valid_text(), fault.from, fault.to), ErrorKind::unsupported, fault.message);
  }
}

TEST(TokenizerFileRefusal, ContradictionsAreNamed) {
  const Fault faults[] = {
      {R"("!": 0)", R"("!": 1)", "id 1"},
      {R"("!": 0)", R"("!": 2097151)", "id 2097151 is beyond the limit of 2097150"},
      {R"("!": 0)", R"("!": 99999999999999999999)", "integer beyond"},
      {R"("!": 0)", R"("!": -1)", "integer of at least 0"},
      {R"("!": 0)", R"("!": 0.5)", "integer expected"},
      {R"("!": 0)", R"("!": 00)", "leading zero"},
      {R"("!": 0)", R"("": 0)", "empty token"},
      {R"("!": 0)", R"("\"": 0)", R"(second entry for token)"},
      {R"("!": 0)", R"("€": 0)", "byte alphabet"},
      {R"("!": 0, )", "", "no token for the byte 0x21"},
      {R"("vocab")", R"("vocabulary")", "model.vocab"},
      {R"("merges")", R"("merge")", "model.merges"},
      {R"("model")", R"("madel")", "model"},
      {R"("merges": [)", R"("merges": [["!", "€"], )", "merge 0 is no pair of tokens"},
      {R"("merges": [)", R"("merges": [["!"], )", "merge 0 is no pair of tokens"},
      {R"("merges": [)", R"("merges": [["!", "!", "!"], )", "merge 0 is no pair of tokens"},
      {R"("merges": [)", R"("merges": ["!!", )", "merge 0 is no pair of tokens"},
      {R"("merges": [)", R"("merges": [["!", "zq"], )", R"(merge 0 names "zq")"},
      {R"("merges": [)", R"("merges": [["!", "Q"], )", R"(merge 0 names "!Q")"},
      {R"("merges": [)", R"("merges": {)", "'['"},
      {R"("id": 504)", R"("id": 503)", "contradicts added token"},
      {R"("id": 504)", R"("id": 5)", "gives to another"},
      {R"("id": 504)", R"("id": 2097151)", "id from 0 to 2097150"},
      {R"("id": 504)", R"("id": "504")", "without an id"},
      {R"("content": "<|im_start|>")", R"("content": "")", "content is no text"},
      {R"("content": "<|im_start|>")", R"("content": "!")", "model.vocab gives it 0"},
      {R"("content": "<|im_start|>")", R"("content": "<|im_end|>")", "contradicts added token"},
      {R"("added_tokens": [)", R"("added_tokens": 5, "x": [)", "added_tokens is number"},
      {R"("version")", R"("normalizer": null, "version")", R"(second member "normalizer")"},
      {R"("Regex": ")", R"("Regex": "()", "pre_tokenizer pattern '((?i:"},
  };
  for (const Fault& fault : faults) {
    expect_refusal(replaced(valid_text(), fault.from, fault.to), ErrorKind::bad_input, fault.message);
  }
  expect_refusal("", ErrorKind::bad_input, "'{'");
  expect_refusal("[]", ErrorKind::bad_input, "'{'");
  expect_refusal("{}", ErrorKind::bad_input, "model");
  expect_refusal(valid_text() + "}", ErrorKind::bad_input, "text behind the value");
  expect_refusal(R"({"a": )" + std::string(100000, '['), ErrorKind::bad_input, "no JSON");
}

TEST(TokenizerFileRefusal, AbsentFileIsNotFound) {
  try {
    Tokenizer::load(kTinyCheckpoint / "absent.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_THAT(error.what(), HasSubstr("absent.json"));
  }
}

// What still loads after random damage must still work.
void expect_no_crash(const std::string& json) {
  try {
    const auto tokenizer = Tokenizer::parse(json, "damaged");
    std::vector<TokenId> ids;
    tokenizer->encode("Hello <think> wor\xFFld 123", ControlTokens::match, ids);
    EXPECT_FALSE(ids.empty());
    EXPECT_FALSE(tokenizer->decode(ids).empty());
  } catch (const Error& error) {
    EXPECT_NE(error.kind(), ErrorKind::internal) << error.what();
  }
}

TEST(TokenizerFileDamage, RandomDamageNeverCrashes) {
  std::mt19937 random(23);
  constexpr std::string_view kInteresting = "\"\\{}[],:0-9.eu \n\xFF\x80\x00";
  for (int round = 0; round < 3000; ++round) {
    std::string json = valid_text();
    const auto faults = 1 + random() % 3;
    for (unsigned i = 0; i < faults && !json.empty(); ++i) {
      const std::size_t at = random() % json.size();
      switch (random() % 4) {
        case 0:
          json[at] = kInteresting[random() % kInteresting.size()];
          break;
        case 1:
          json.erase(at, 1 + random() % 40);
          break;
        case 2:
          json.insert(at, json.substr(random() % json.size(), random() % 60));
          break;
        default:
          if (random() % 8 == 0) json.resize(at);
          break;
      }
    }
    expect_no_crash(json);
  }
}

TEST(TokenizerFileDamage, EveryTruncationIsRefused) {
  const std::string& json = valid_text();
  for (std::size_t size = 0; size + 2 < json.size(); size += 13) {
    EXPECT_THROW(Tokenizer::parse(json.substr(0, size), "cut"), Error) << size;
  }
}

TEST(TokenizerFileForms, MergesMayBeWrittenAsOneText) {
  Json file = Json::parse(valid_text());
  Json model = *file.find("model");
  Json::Array merges;
  for (const Json& pair : model.find("merges")->as_array()) {
    const Json::Array& tokens = pair.as_array();
    merges.push_back(Json::string(tokens[0].as_string() + " " + tokens[1].as_string()));
  }
  model.set("merges", Json::array(merges));
  file.set("model", model);
  const auto older = Tokenizer::parse(file.dump(), "older form");
  const std::string text = read_text(kTinyCheckpoint / "chat_template.jinja");
  EXPECT_EQ(encode(*older, text), encode(tiny_tokenizer(), text));
}

TEST(TokenizerFileForms, MergesMayStandBeforeTheVocabulary) {
  const Json file = Json::parse(valid_text());
  Json turned = Json::object();
  Json model = Json::object();
  const Json::Object& members = file.find("model")->as_object();
  for (auto member = members.rbegin(); member != members.rend(); ++member)
    model.set(member->first, member->second);
  turned.set("model", model);
  for (const auto& [key, value] : file.as_object()) {
    if (key != "model") turned.set(key, value);
  }
  const auto tokenizer = Tokenizer::parse(turned.dump(), "turned");
  EXPECT_EQ(encode(*tokenizer, "the tokenizer"), encode(tiny_tokenizer(), "the tokenizer"));
}

TEST(TokenizerFileForms, EscapesSpellTheSameTokens) {
  const std::string json = replaced(valid_text(), R"("!": 0)", R"("\u0021": 0)");
  EXPECT_EQ(encode(*Tokenizer::parse(json, "escaped"), "!"), std::vector<TokenId>{0});
  expect_refusal(replaced(valid_text(), R"("!": 0)", R"("\ud83d": 0)"), ErrorKind::bad_input,
                 "lone surrogate");
  expect_refusal(replaced(valid_text(), R"("!": 0)", R"("\ud83d\ude00": 0)"), ErrorKind::bad_input,
                 "byte alphabet");
  expect_refusal(replaced(valid_text(), R"("!": 0)", R"("\x": 0)"), ErrorKind::bad_input, "unknown escape");
  expect_refusal(replaced(valid_text(), R"("!": 0)", R"("\u00g1": 0)"), ErrorKind::bad_input, "hexadecimal");
}

TEST(TokenizerFileForms, AnotherPatternIsObeyed) {
  const auto digits = Tokenizer::parse(replaced(valid_text(), R"(\\p{N}| ?)", R"(\\p{N}{1,3}| ?)"), "digits");
  EXPECT_THAT(digits->pretokenize("a 12345"), testing::ElementsAre("a", " ", "123", "45"));
  EXPECT_THAT(tiny_tokenizer().pretokenize("a 12"), testing::ElementsAre("a", " ", "1", "2"));
}

TEST(TokenizerFileForms, WithoutNormalizerTextStaysAsItIs) {
  const auto plain = Tokenizer::parse(replaced(valid_text(), R"({"type": "NFC"})", "null"), "plain");
  EXPECT_EQ(plain->decode(encode(*plain, "e\u0301")), "e\u0301");
  EXPECT_EQ(tiny_tokenizer().decode(encode(tiny_tokenizer(), "e\u0301")), "\u00e9");
}

TEST(TokenizerFileSpeed, TheRealFileLoadsFast) {
  const std::string json = read_text(kRealTokenizerFile);
  const std::clock_t start = std::clock();
  const auto tokenizer = Tokenizer::parse(json, "real");
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(tokenizer->size(), 248077U);
  EXPECT_LT(seconds, 2.0);  // 0.12 in a release build; room for sanitizers and slow machines
}

}  // namespace
}  // namespace lily::text
