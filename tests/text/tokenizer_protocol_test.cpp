// A checkpoint folder as the rest of the program sees it: its template, its added tokens, its prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lily/error.hpp"
#include "lily/text.hpp"
#include "tokenizer_fixture.hpp"

namespace lily {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A folder of its own for each test, gone when the test ends.
class TextProtocolTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(LILY_BUILD_DIR) / "text-protocol" / test->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
      write(name, text::read_text(text::kTinyCheckpoint / name));
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }

  void expect_refusal(ErrorKind kind, const std::string& message) {
    try {
      TextProtocol::open(folder_);
      ADD_FAILURE() << "opened instead of: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_THAT(error.what(), HasSubstr(message));
    }
  }

  std::filesystem::path folder_;
};

TEST_F(TextProtocolTest, OpensThePublishedTemplate) {
  const auto protocol = TextProtocol::open(folder_);
  EXPECT_EQ(protocol->vocabulary_size(), 512U);
  EXPECT_EQ(protocol->decode(protocol->encode("Hello, world!", false)), "Hello, world!");
  EXPECT_THAT(protocol->encode("<think>", true), ElementsAre(506));
  EXPECT_GT(protocol->encode("<think>", false).size(), 1U);
}

TEST_F(TextProtocolTest, ATemplateChangedByOneByteIsRefused) {
  std::string changed = text::read_text(folder_ / "chat_template.jinja");
  changed[changed.size() / 2] ^= 1;
  write("chat_template.jinja", changed);
  expect_refusal(ErrorKind::unsupported, "chat_template");
}

TEST_F(TextProtocolTest, TheTemplateOfTheConfigCountsWithoutAFile) {
  const std::string published = text::read_text(folder_ / "chat_template.jinja");
  std::filesystem::remove(folder_ / "chat_template.jinja");
  EXPECT_NE(TextProtocol::open(folder_), nullptr);  // none at all

  Json config = Json::object();
  config.set("chat_template", Json::string(published));
  write("tokenizer_config.json", config.dump());
  EXPECT_NE(TextProtocol::open(folder_), nullptr);

  config.set("chat_template", Json::string(published + " "));
  write("tokenizer_config.json", config.dump());
  expect_refusal(ErrorKind::unsupported, "tokenizer_config.json: chat_template");

  Json named = Json::object();
  named.set("name", Json::string("default"));
  named.set("template", Json::string(published));
  config.set("chat_template", Json::array({named}));
  write("tokenizer_config.json", config.dump());
  EXPECT_NE(TextProtocol::open(folder_), nullptr);

  config.set("chat_template", Json::integer(7));
  write("tokenizer_config.json", config.dump());
  expect_refusal(ErrorKind::bad_input, "tokenizer_config.json: chat_template");
}

TEST_F(TextProtocolTest, TakesAddedTokensThatOnlyTheConfigHas) {
  write("tokenizer_config.json",
        R"({"added_tokens_decoder": {"512": {"content": "<|audio_start|>", "normalized": false},
            "506": {"content": "<think>"}}})");
  const auto protocol = TextProtocol::open(folder_);
  EXPECT_EQ(protocol->vocabulary_size(), 513U);
  EXPECT_THAT(protocol->encode("<|audio_start|>", true), ElementsAre(512));
  EXPECT_EQ(TextProtocol::open_tokenizer(folder_ / "tokenizer.json")->vocabulary_size(), 512U);

  write("tokenizer_config.json", R"({"added_tokens_decoder": {"506": {"content": "<thought>"}}})");
  expect_refusal(ErrorKind::bad_input, "contradicts");
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"5x": {"content": "<thought>"}}})");
  expect_refusal(ErrorKind::bad_input, "without an id");
  write("tokenizer_config.json", R"({"added_tokens_decoder": []})");
  expect_refusal(ErrorKind::bad_input, "added_tokens_decoder is array");
  write("tokenizer_config.json", "{");
  expect_refusal(ErrorKind::bad_input, "tokenizer_config.json");
}

TEST_F(TextProtocolTest, AFolderWithoutTokenizerIsNotFound) {
  std::filesystem::remove(folder_ / "tokenizer.json");
  expect_refusal(ErrorKind::not_found, "tokenizer.json");
}

TEST_F(TextProtocolTest, NeighbouringPlainSegmentsAreOneText) {
  const auto protocol = TextProtocol::open(folder_);
  const RenderedPrompt cut{{{true, "<|im_start|>"}, {false, "us"}, {false, "er\n"}, {false, "<think>"}},
                           false};
  std::vector<TokenId> expected = protocol->encode("user\n<think>", false);
  expected.insert(expected.begin(), 504);
  EXPECT_EQ(protocol->encode(cut), expected);
}

TEST_F(TextProtocolTest, AControlTokenThatTheVocabularyLacksIsNamed) {
  const auto protocol = TextProtocol::open(folder_);
  const RenderedPrompt prompt{{{true, "<|vision_start|>"}}, false};
  EXPECT_THAT([&] { protocol->encode(prompt); },
              testing::ThrowsMessage<Error>(HasSubstr("<|vision_start|>")));
}

TEST_F(TextProtocolTest, TypedControlTokensStayText) {
  int checked = 0;
  for (const Json& line : text::read_json_lines(LILY_TEST_DATA "/cases.jsonl")) {
    const Json* counts = line.find("expect")->find("count_special");
    if (counts == nullptr) continue;
    const std::string& id = line.find("id")->as_string();
    const auto protocol = TextProtocol::open_tokenizer(text::kRealTokenizerFile);
    const RenderedPrompt prompt = protocol->render(parse_chat_prompt(*line.find("input")));
    const std::vector<TokenId> ids = protocol->encode(prompt);
    for (const auto& [literal, count] : counts->as_object()) {
      const TokenId control = text::real_tokenizer().control_id(literal).value();
      EXPECT_EQ(std::count(ids.begin(), ids.end(), control), count.as_integer()) << id << " " << literal;
    }
    EXPECT_EQ(protocol->decode(ids), prompt.text()) << id;
    ++checked;
  }
  EXPECT_EQ(checked, 2);
}

TEST_F(TextProtocolTest, ParsesAnswersThatAreNoText) {
  const Answer answer = TextProtocol::open(folder_)->parse(
      "a\xFF"
      "b",
      {});
  EXPECT_EQ(answer.content,
            "a\uFFFD"
            "b");
}

}  // namespace
}  // namespace lily
