// One request from prompt to answer: why it ends, what it counts, and what it leaves behind.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "lily/error.hpp"
#include "support/raises.hpp"
#include "support/scripted_engine.hpp"

namespace lily {
namespace {

using testing::ask;
using testing::continue_text;
using testing::ids_of;
using testing::make_scripted_engine;
using testing::ScriptLog;

std::vector<TokenId> script_of(const std::string& text) { return ids_of(text); }

// Runs a request and checks that the deltas fold into the answer.
GenerationResult run(Engine& engine, const GenerationRequest& request, std::stop_token stop = {}) {
  Delta folded;
  GenerationCallbacks callbacks;
  callbacks.delta = [&](const Delta& delta) {
    EXPECT_FALSE(delta.empty());
    folded.reasoning += delta.reasoning;
    folded.content += delta.content;
  };
  const GenerationResult result = engine.generate(request, callbacks, std::move(stop));
  EXPECT_EQ(folded.reasoning, result.answer.reasoning);
  EXPECT_EQ(folded.content, result.answer.content);
  EXPECT_EQ(result.usage.completion_tokens, static_cast<int>(result.ids.size()));
  return result;
}

TEST(Generation, EndsAtAStopTokenWhichIsNoPartOfTheAnswer) {
  for (const std::string end : {"<|im_end|>", "<|endoftext|>"}) {
    const auto engine = make_scripted_engine({.tokens = script_of("Hello there" + end + "never")});
    const GenerationResult result = run(*engine, continue_text("x"));
    EXPECT_EQ(result.answer.content, "Hello there");
    EXPECT_EQ(result.answer.finish_reason, FinishReason::stop);
    EXPECT_EQ(result.ids, ids_of("Hello there"));
    EXPECT_EQ(result.usage.prompt_tokens, static_cast<int>(ids_of("x").size()));
    EXPECT_EQ(result.usage.cached_tokens, 0);
  }
}

TEST(Generation, AnAnswerMayBeEmpty) {
  const auto engine = make_scripted_engine({.tokens = script_of("<|im_end|>")});
  const GenerationResult result = run(*engine, continue_text("x"));
  EXPECT_EQ(result.answer.content, "");
  EXPECT_EQ(result.answer.finish_reason, FinishReason::stop);
  EXPECT_EQ(result.usage.completion_tokens, 0);
}

TEST(Generation, IgnoreEosNeverSamplesAStopToken) {
  const auto engine = make_scripted_engine({.tokens = script_of("a<|im_end|><|endoftext|>")});
  GenerationRequest request = continue_text("x");
  request.ignore_eos = true;
  request.max_tokens = 9;
  const GenerationResult result = run(*engine, request);
  EXPECT_EQ(result.usage.completion_tokens, 9);
  EXPECT_EQ(result.answer.finish_reason, FinishReason::length);
  EXPECT_EQ(result.answer.content.find("<|"), std::string::npos);
}

TEST(Generation, MaxTokensIsExactAndTheLastTokenCostsNoStep) {
  const auto log = std::make_shared<ScriptLog>();
  const auto engine = make_scripted_engine({.tokens = script_of("abcdefgh")}, {}, log);
  for (const int limit : {1, 2, 5}) {
    *log = {};
    GenerationRequest request = continue_text("x");
    request.max_tokens = limit;
    const GenerationResult result = run(*engine, request);
    EXPECT_EQ(result.usage.completion_tokens, limit);
    EXPECT_EQ(result.answer.finish_reason, FinishReason::length);
    EXPECT_EQ(log->decode_steps, limit - 1);
  }
}

TEST(Generation, ThinkingIsCountedAndApart) {
  const std::string thought = "so it is\n</think>\n\n";
  const auto engine = make_scripted_engine({.tokens = script_of(thought + "four<|im_end|>")});
  const GenerationResult result = run(*engine, ask("2+2?", true));
  EXPECT_NE(result.answer.reasoning.find("so it is"), std::string::npos);
  EXPECT_EQ(result.answer.content, "four");
  EXPECT_EQ(result.usage.reasoning_tokens, static_cast<int>(ids_of("so it is\n</think>").size()));
  EXPECT_EQ(run(*engine, ask("2+2?", false)).usage.reasoning_tokens, 0);
}

TEST(Generation, AStopStringMayLieAcrossTokens) {
  const auto engine = make_scripted_engine({.tokens = script_of("red green blue pink<|im_end|>")});
  GenerationRequest request = continue_text("x");
  request.stop_strings = {"een bl"};
  const GenerationResult result = run(*engine, request);
  EXPECT_EQ(result.answer.content, "red gr");
  EXPECT_EQ(result.answer.finish_reason, FinishReason::stop);
  EXPECT_LT(result.usage.completion_tokens, static_cast<int>(ids_of("red green blue pink").size()));
}

TEST(Generation, AStopStringInTheLastAllowedTokenIsAStop) {
  const auto engine = make_scripted_engine({.tokens = script_of("abcZ")});
  GenerationRequest request = continue_text("x");
  request.stop_strings = {"Z"};
  request.max_tokens = static_cast<int>(ids_of("abcZ").size());
  EXPECT_EQ(run(*engine, request).answer.finish_reason, FinishReason::stop);
}

TEST(Generation, CharactersSplitOverTokensArriveWhole) {
  const std::string text = "naïve 你好 🙂 end";
  const auto engine = make_scripted_engine({.tokens = script_of(text + "<|im_end|>")});
  EXPECT_EQ(run(*engine, continue_text("x")).answer.content, text);
}

TEST(Generation, ToolCallsHaveIdsOfTheirOwnInEveryRequest) {
  const std::string call =
      "<tool_call>\n<function=look>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>";
  const auto engine = make_scripted_engine({.tokens = script_of(call + "\n" + call + "<|im_end|>")});
  GenerationRequest request = ask("weather?", false);
  std::get<ChatPrompt>(request.prompt)
      .tools.push_back(Json::parse(
          R"({"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}})"));
  std::set<std::string> ids;
  for (int i = 0; i < 2; ++i) {
    const GenerationResult result = engine->generate(request, {}, {});
    EXPECT_EQ(result.answer.finish_reason, FinishReason::tool_calls);
    ASSERT_EQ(result.answer.tool_calls.size(), 2U);
    for (const Answer::Call& made : result.answer.tool_calls) {
      EXPECT_EQ(made.name, "look");
      ids.insert(made.id);
    }
  }
  EXPECT_EQ(ids.size(), 4U);
  request.parse_tool_calls = false;
  const GenerationResult plain = engine->generate(request, {}, {});
  EXPECT_TRUE(plain.answer.tool_calls.empty());
  EXPECT_NE(plain.answer.content.find("<function=look>"), std::string::npos);
}

TEST(Generation, TheSameSeedGivesTheSameText) {
  // All tokens below the scripted one are nearly as likely, so draws differ unless the stream is the same.
  const auto engine = make_scripted_engine({.tokens = script_of("a")});
  GenerationRequest request = continue_text("x");
  request.max_tokens = 24;
  request.ignore_eos = true;
  request.sampling.temperature = 1.0F;
  request.sampling.logit_bias = {{script_of("a").front(), -100.0F}};
  request.sampling.seed = 5;
  const GenerationResult first = run(*engine, request);
  EXPECT_EQ(run(*engine, request).ids, first.ids);
  request.sampling.seed = 6;
  EXPECT_NE(run(*engine, request).ids, first.ids);
  request.sampling.seed.reset();
  const GenerationResult random = run(*engine, request);
  EXPECT_NE(random.ids, first.ids);
  // The seed that was used is reported and repeats the answer.
  request.sampling.seed = random.effective.seed;
  ASSERT_TRUE(request.sampling.seed.has_value());
  EXPECT_EQ(run(*engine, request).ids, random.ids);
}

TEST(Generation, ReportsTheSettingsInUse) {
  const auto engine = make_scripted_engine({.tokens = script_of("a<|im_end|>")});
  GenerationRequest request = continue_text("x");
  request.sampling.top_p = 0.5F;
  const SamplingOptions effective = run(*engine, request).effective;
  EXPECT_EQ(effective.temperature, 0.0F);  // the test engine's generation_config says do_sample: false
  EXPECT_EQ(effective.top_p, 0.5F);
  EXPECT_EQ(effective.top_k, 0);
  EXPECT_EQ(effective.min_p, 0.0F);
  EXPECT_EQ(effective.repetition_penalty, 1.0F);
  EXPECT_EQ(effective.presence_penalty, 0.0F);
  EXPECT_EQ(effective.frequency_penalty, 0.0F);
  EXPECT_TRUE(effective.seed.has_value());
}

TEST(Cancellation, EndsTheAnswerWithinTwoTokens) {
  const auto log = std::make_shared<ScriptLog>();
  const auto engine = make_scripted_engine({.tokens = script_of("abcd")}, {}, log);
  std::stop_source stop;
  int tokens_after = 0;
  GenerationCallbacks callbacks;
  callbacks.delta = [&](const Delta&) {
    if (stop.stop_requested()) ++tokens_after;
    if (log->decode_steps == 3) stop.request_stop();
  };
  const GenerationResult result = engine->generate(continue_text("x"), callbacks, stop.get_token());
  EXPECT_EQ(result.answer.finish_reason, FinishReason::cancelled);
  EXPECT_GE(result.usage.completion_tokens, 4);
  EXPECT_LE(result.usage.completion_tokens, 6);
  EXPECT_LE(tokens_after, 2);
  EXPECT_FALSE(result.answer.content.empty());
}

TEST(Cancellation, EndsAPromptAtTheNextChunk) {
  const auto log = std::make_shared<ScriptLog>();
  const auto engine = make_scripted_engine({.tokens = script_of("a"), .chunk = 8}, {}, log);
  std::stop_source stop;
  std::vector<int> progress;
  GenerationCallbacks callbacks;
  callbacks.prefill = [&](int done, int total) {
    EXPECT_EQ(total, 100);
    progress.push_back(done);
    if (done >= 16) stop.request_stop();
  };
  GenerationRequest request;
  request.prompt = std::vector<TokenId>(100, 5);
  const GenerationResult result = engine->generate(request, callbacks, stop.get_token());
  EXPECT_EQ(result.answer.finish_reason, FinishReason::cancelled);
  EXPECT_EQ(result.usage.completion_tokens, 0);
  EXPECT_EQ(progress, (std::vector<int>{8, 16}));
  EXPECT_EQ(log->prefill_tokens, 16);
}

// Whatever ended a request, the next one starts from nothing and works.
class AfterAFailure : public ::testing::Test {
 protected:
  static constexpr const char* kAnswer = "fine";

  static void expect_works(Engine& engine, ScriptLog& log) {
    GenerationRequest request = continue_text("again");
    request.max_tokens = 2;
    EXPECT_EQ(run(engine, request).usage.completion_tokens, 2);
    EXPECT_EQ(log.sequences, 1) << "the sequence made at open is reused";
    EXPECT_GE(log.resets, 2);
  }
};

TEST_F(AfterAFailure, NonFiniteLogits) {
  for (const int at : {0, 3}) {
    const auto log = std::make_shared<ScriptLog>();
    const auto engine = make_scripted_engine({.tokens = script_of(kAnswer), .nan_at = at}, {}, log);
    const Error error = testing::raised([&] { engine->generate(continue_text("x"), {}, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::internal);
    testing::expect_mentions(error, "not finite");
    if (at > 0) {
      expect_works(*engine, *log);
    }
  }
}

TEST_F(AfterAFailure, ADeviceError) {
  const auto log = std::make_shared<ScriptLog>();
  const auto engine = make_scripted_engine({.tokens = script_of(kAnswer), .error_at = 2}, {}, log);
  const Error error = testing::raised([&] { engine->generate(continue_text("x"), {}, {}); });
  EXPECT_EQ(error.kind(), ErrorKind::device);
  expect_works(*engine, *log);
}

TEST_F(AfterAFailure, ACallbackThatThrows) {
  const auto log = std::make_shared<ScriptLog>();
  const auto engine = make_scripted_engine({.tokens = script_of(kAnswer)}, {}, log);
  GenerationCallbacks callbacks;
  callbacks.delta = [](const Delta&) { throw std::runtime_error("client gone"); };
  EXPECT_THROW(engine->generate(continue_text("x"), callbacks, {}), std::runtime_error);
  callbacks.delta = {};
  callbacks.prefill = [](int, int) { throw std::runtime_error("client gone"); };
  EXPECT_THROW(engine->generate(continue_text("x"), callbacks, {}), std::runtime_error);
  expect_works(*engine, *log);
}

TEST_F(AfterAFailure, ACancelledPrompt) {
  const auto log = std::make_shared<ScriptLog>();
  const auto engine = make_scripted_engine({.tokens = script_of(kAnswer)}, {}, log);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(engine->generate(continue_text("x"), {}, stop.get_token()).answer.finish_reason,
            FinishReason::cancelled);
  expect_works(*engine, *log);
}

}  // namespace
}  // namespace lily
