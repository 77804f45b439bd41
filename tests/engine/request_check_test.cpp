// Requests that must be refused before anything runs, and how the refusal names the field.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lily/error.hpp"
#include "support/raises.hpp"
#include "support/scripted_engine.hpp"

namespace lily {
namespace {

using testing::continue_text;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RequestCheck : public ::testing::Test {
 protected:
  static Engine& engine() {
    static const auto engine = testing::make_scripted_engine({.tokens = {1}}, {.context = 64});
    return *engine;
  }

  static Error refusal(const std::function<void(GenerationRequest&)>& spoil) {
    GenerationRequest request = continue_text("x");
    spoil(request);
    const Error error = testing::raised([&] { engine().check(request); });
    const Error again = testing::raised([&] { engine().generate(request, {}, {}); });
    EXPECT_STREQ(again.what(), error.what());
    return error;
  }

  static void expect_param(const std::string& param, const std::function<void(GenerationRequest&)>& spoil) {
    const Error error = refusal(spoil);
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    EXPECT_EQ(error.param(), param) << error.what();
  }
};

TEST_F(RequestCheck, RangesOfEveryField) {
  for (const float bad : {-0.1F, 2.1F, 1e9F, kNan}) {
    expect_param("temperature", [&](GenerationRequest& r) { r.sampling.temperature = bad; });
  }
  for (const float bad : {-0.1F, 1.1F, -3.0F, kNan}) {
    expect_param("top_p", [&](GenerationRequest& r) { r.sampling.top_p = bad; });
    expect_param("min_p", [&](GenerationRequest& r) { r.sampling.min_p = bad; });
  }
  for (const float bad : {0.0F, -1.0F, 10.1F, kNan}) {
    expect_param("repetition_penalty", [&](GenerationRequest& r) { r.sampling.repetition_penalty = bad; });
  }
  for (const float bad : {-2.1F, 2.1F, kNan}) {
    expect_param("presence_penalty", [&](GenerationRequest& r) { r.sampling.presence_penalty = bad; });
    expect_param("frequency_penalty", [&](GenerationRequest& r) { r.sampling.frequency_penalty = bad; });
  }
  expect_param("top_k", [](GenerationRequest& r) { r.sampling.top_k = -2; });
  expect_param("max_tokens", [](GenerationRequest& r) { r.max_tokens = 0; });
  expect_param("max_tokens", [](GenerationRequest& r) { r.max_tokens = -5; });
}

TEST_F(RequestCheck, EdgesOfTheRangesAreAllowed) {
  GenerationRequest request = continue_text("x");
  request.max_tokens = std::numeric_limits<int>::max();
  for (const float edge : {0.0F, 2.0F}) {
    request.sampling.temperature = edge;
    request.sampling.top_p = edge / 2;
    request.sampling.min_p = edge / 2;
    request.sampling.presence_penalty = edge * 2 - 2;
    request.sampling.frequency_penalty = edge * 2 - 2;
    request.sampling.repetition_penalty = edge == 0 ? 0.01F : 10.0F;
    request.sampling.top_k = edge == 0 ? -1 : std::numeric_limits<int>::max();
    EXPECT_EQ(engine().check(request), testing::ids_of("x"));
    EXPECT_GT(engine().generate(request, {}, {}).usage.completion_tokens, 0);
  }
}

TEST_F(RequestCheck, LogitBias) {
  const int vocabulary = engine().info().vocabulary_size;
  expect_param("logit_bias", [&](GenerationRequest& r) { r.sampling.logit_bias = {{vocabulary, 1.0F}}; });
  expect_param("logit_bias", [](GenerationRequest& r) { r.sampling.logit_bias = {{-1, 1.0F}}; });
  expect_param("logit_bias", [](GenerationRequest& r) { r.sampling.logit_bias = {{1, 100.5F}}; });
  expect_param("logit_bias", [](GenerationRequest& r) { r.sampling.logit_bias = {{1, kNan}}; });
}

TEST_F(RequestCheck, LogitBiasLeavesATokenToChoose) {
  const TokenId word = testing::ids_of("x").front(), end = testing::ids_of("<|im_end|>").front();
  const auto ban_all_but = [&](GenerationRequest& r, TokenId left) {
    for (TokenId id = 0; id < engine().info().vocabulary_size; ++id) {
      if (id != left) r.sampling.logit_bias[id] = -100;
    }
  };
  expect_param("logit_bias", [&](GenerationRequest& r) { ban_all_but(r, -1); });
  expect_param("logit_bias", [&](GenerationRequest& r) {
    ban_all_but(r, end);
    r.ignore_eos = true;
  });
  for (const TokenId left : {word, end}) {
    GenerationRequest request = continue_text("x");
    ban_all_but(request, left);
    EXPECT_EQ(engine().check(request), testing::ids_of("x"));
  }
}

TEST_F(RequestCheck, StopStrings) {
  expect_param("stop[1]", [](GenerationRequest& r) { r.stop_strings = {"a", ""}; });
  expect_param("stop[0]", [](GenerationRequest& r) { r.stop_strings = {std::string(5000, 'a')}; });
  expect_param("stop", [](GenerationRequest& r) { r.stop_strings.assign(65, "a"); });
}

TEST_F(RequestCheck, PromptIds) {
  const int vocabulary = engine().info().vocabulary_size;
  expect_param("prompt", [](GenerationRequest& r) { r.prompt = std::string(); });
  expect_param("prompt", [](GenerationRequest& r) { r.prompt = std::vector<TokenId>(); });
  expect_param("prompt[1]", [](GenerationRequest& r) { r.prompt = std::vector<TokenId>{1, -1}; });
  expect_param("prompt[0]", [&](GenerationRequest& r) { r.prompt = std::vector<TokenId>{vocabulary}; });
}

TEST_F(RequestCheck, ImagesAreRefusedByTheirPlace) {
  const Error error = refusal([](GenerationRequest& request) {
    request = testing::ask("look", false);
    std::get<ChatPrompt>(request.prompt).messages[0].content.push_back({ContentPart::Kind::image, ""});
  });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  EXPECT_EQ(error.param(), "messages[0].content[1]");
}

// The context holds the prompt and at least one token of the answer; both together never exceed it.
TEST_F(RequestCheck, ContextLimit) {
  const int context = engine().info().context;
  ASSERT_EQ(context, 64);
  for (const int length : {context - 4, context - 1, context, context + 1, 50 * context}) {
    GenerationRequest request;
    request.prompt = std::vector<TokenId>(static_cast<std::size_t>(length), 5);
    request.max_tokens = 1000;
    request.ignore_eos = true;
    if (length < context) {
      const GenerationResult result = engine().generate(request, {}, {});
      EXPECT_EQ(result.answer.finish_reason, FinishReason::length);
      EXPECT_EQ(result.usage.prompt_tokens, length);
      EXPECT_EQ(result.usage.completion_tokens, context - length);
      continue;
    }
    const Error error = testing::raised([&] { engine().generate(request, {}, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::too_long);
    testing::expect_mentions(error, std::to_string(length));
    testing::expect_mentions(error, std::to_string(context));
  }
}

// A text is counted up to four contexts.
TEST_F(RequestCheck, TextFarBeyondTheContextIsNotCounted) {
  for (const int words : {25, 100000}) {
    std::string text;
    for (int i = 0; i < words; ++i) text += "word ";
    GenerationRequest continued, chat;
    continued.prompt = text;
    ChatPrompt conversation;
    conversation.messages.emplace_back().content.push_back({ContentPart::Kind::text, text});
    chat.prompt = conversation;
    for (const GenerationRequest* request : {&continued, &chat}) {
      const Error error = testing::raised([&] { engine().generate(*request, {}, {}); });
      EXPECT_EQ(error.kind(), ErrorKind::too_long);
      EXPECT_EQ(error.param(), request == &chat ? "messages" : "prompt");
      testing::expect_mentions(error, "the context is 64");
      EXPECT_EQ(std::string(error.what()).find("more than 256") != std::string::npos, words == 100000)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace lily
