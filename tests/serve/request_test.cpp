// Risk: a request's meaning is lost or guessed: fields ignored without a word, wrong types taken, errors that
// name no field.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "lily/error.hpp"
#include "serve/chat_request.hpp"
#include "serve/echo.hpp"
#include "serve/json_shape.hpp"
#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

using serve::ChatRequest;
using serve::parse_chat_request;

ChatRequest parse(std::string_view members) { return parse_chat_request(body(members), "lily"); }

struct Refusal {
  ErrorKind kind = ErrorKind::internal;
  std::string param;
  std::string message;
};

// The refusal of a whole body; a test fails when it is accepted.
Refusal refusal_of_body(std::string_view text) {
  try {
    parse_chat_request(text, "lily");
  } catch (const Error& error) {
    return {error.kind(), error.param(), error.what()};
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  return {};
}

Refusal refusal(std::string_view members) { return refusal_of_body(body(members)); }

TEST(Request, DefaultsLeaveEverythingToTheEngine) {
  const ChatRequest request = parse("");
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.generation.max_tokens);
  EXPECT_FALSE(request.generation.sampling.temperature);
  EXPECT_FALSE(request.generation.sampling.seed);
  EXPECT_TRUE(request.generation.parse_tool_calls);
  EXPECT_TRUE(std::get<ChatPrompt>(request.generation.prompt).enable_thinking);
}

TEST(Request, EveryFieldReachesTheEngine) {
  const ChatRequest request = parse(R"(
      "model": "lily", "temperature": 0.5, "top_k": 7, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1,
      "presence_penalty": 1.5, "frequency_penalty": -0.5, "logit_bias": {"12": -100, "7": 2.5}, "seed": -3,
      "max_tokens": 9, "stop": ["a", "b"], "ignore_eos": true, "stream": true,
      "stream_options": {"include_usage": true}, "preserve_thinking": true, "continue_final_message": false,
      "chat_template_kwargs": {"enable_thinking": false})");
  const SamplingOptions& sampling = request.generation.sampling;
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 7);
  EXPECT_EQ(sampling.top_p, 0.9F);
  EXPECT_EQ(sampling.min_p, 0.1F);
  EXPECT_EQ(sampling.repetition_penalty, 1.1F);
  EXPECT_EQ(sampling.presence_penalty, 1.5F);
  EXPECT_EQ(sampling.frequency_penalty, -0.5F);
  EXPECT_EQ(sampling.logit_bias, (std::map<TokenId, float>{{12, -100.0F}, {7, 2.5F}}));
  EXPECT_EQ(sampling.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(request.generation.max_tokens, 9);
  EXPECT_EQ(request.generation.stop_strings, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request.generation.ignore_eos);
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_TRUE(std::get<ChatPrompt>(request.generation.prompt).preserve_thinking);
  EXPECT_FALSE(std::get<ChatPrompt>(request.generation.prompt).enable_thinking);
}

TEST(Request, NullMeansDefault) {
  const ChatRequest request = parse(R"(
      "model": null, "temperature": null, "stop": null, "tools": null, "tool_choice": null, "seed": null, "n": null,
      "max_tokens": null, "stream": null, "stream_options": null, "response_format": null, "logprobs": null,
      "functions": null, "chat_template_kwargs": null, "enable_thinking": null, "logit_bias": null)");
  EXPECT_FALSE(request.generation.sampling.temperature);
  EXPECT_TRUE(request.generation.stop_strings.empty());
  EXPECT_FALSE(request.stream);
}

TEST(Request, HarmlessFieldsOfOrdinaryClientsAreAccepted) {
  const ChatRequest request = parse(R"(
      "user": "u", "metadata": {"a": "b"}, "store": false, "parallel_tool_calls": true, "service_tier": "auto",
      "prompt_cache_key": "k", "prompt_cache_retention": "24h", "safety_identifier": "s", "verbosity": "low",
      "prediction": {"type": "content", "content": "x"}, "n": 1, "logprobs": false, "top_logprobs": 0,
      "modalities": ["text"], "response_format": {"type": "text"})");
  EXPECT_FALSE(request.generation.max_tokens);
}

TEST(Request, UnknownFieldsAreNamed) {
  const Refusal one = refusal(R"("foo": {"bar": 1})");
  EXPECT_EQ(one.kind, ErrorKind::bad_input);
  EXPECT_EQ(one.param, "foo");
  const Refusal many =
      refusal(R"("aa": 1, "temperature": 1, "bb": null, "cc": 1, "dd": 1, "ee": 1, "ff": 1)");
  EXPECT_EQ(many.param, "aa");
  EXPECT_EQ(many.message, "unknown fields: aa, bb, cc, dd, ee and 1 more");
  EXPECT_EQ(refusal(R"("stream": true, "stream_options": {"x": 1})").param, "stream_options.x");
  EXPECT_EQ(refusal(R"("chat_template_kwargs": {"x": 1})").param, "chat_template_kwargs.x");
}

struct BadField {
  const char* members;
  const char* param;
  ErrorKind kind = ErrorKind::bad_input;
};

class BadFields : public testing::TestWithParam<BadField> {};

TEST_P(BadFields, AreRefusedByName) {
  const Refusal found = refusal(GetParam().members);
  EXPECT_EQ(found.param, GetParam().param) << found.message;
  EXPECT_EQ(found.kind, GetParam().kind) << found.message;
  EXPECT_LE(found.message.size(), serve::kMaxEcho);
}

constexpr auto kUnsupported = ErrorKind::unsupported;
INSTANTIATE_TEST_SUITE_P(
    Types, BadFields,
    testing::Values(
        BadField{R"("temperature": "hot")", "temperature"}, BadField{R"("top_k": 1.5)", "top_k"},
        BadField{R"("top_k": -2)", "top_k"}, BadField{R"("seed": "7")", "seed"},
        BadField{R"("seed": 99999999999999999999)", "seed"}, BadField{R"("stream": 1)", "stream"},
        BadField{R"("ignore_eos": "yes")", "ignore_eos"}, BadField{R"("model": 7)", "model"},
        BadField{R"("max_tokens": "100")", "max_tokens"}, BadField{R"("max_tokens": 0)", "max_tokens"},
        BadField{R"("max_tokens": -5)", "max_tokens"}, BadField{R"("max_tokens": 1.5)", "max_tokens"},
        BadField{R"("max_tokens": 1e30)", "max_tokens"},
        BadField{R"("max_tokens": 4294967296)", "max_tokens"},
        BadField{R"("max_tokens": 5, "max_completion_tokens": 0)", "max_completion_tokens"},
        BadField{R"("stop": 5)", "stop"}, BadField{R"("stop": "")", "stop"},
        BadField{R"("stop": ["a", ""])", "stop[1]"}, BadField{R"("stop": ["a", 5])", "stop[1]"},
        BadField{R"("logit_bias": [1])", "logit_bias"}, BadField{R"("logit_bias": {"x": 1})", "logit_bias.x"},
        BadField{R"("logit_bias": {"-1": 1})", "logit_bias.-1"},
        BadField{R"("logit_bias": {"1": "x"})", "logit_bias.1"},
        BadField{R"("stream_options": {})", "stream_options"},
        BadField{R"("stream": true, "stream_options": [])", "stream_options"},
        BadField{R"("stream": true, "stream_options": {"include_usage": 1})", "stream_options.include_usage"},
        BadField{R"("chat_template_kwargs": {"enable_thinking": "maybe"})",
                 "chat_template_kwargs.enable_thinking"},
        BadField{R"("enable_thinking": "maybe")", "enable_thinking"},
        BadField{R"("reasoning_effort": "huge")", "reasoning_effort"}, BadField{R"("tools": {})", "tools"},
        BadField{R"("response_format": "json")", "response_format"},
        BadField{R"("response_format": {})", "response_format.type"},
        BadField{R"("response_format": {"type": "yaml"})", "response_format.type"},
        BadField{R"("n": 0)", "n"}, BadField{R"("tool_choice": 5)", "tool_choice"},
        BadField{R"("tool_choice": "sometimes")", "tool_choice"},
        BadField{R"("tool_choice": "required")", "tool_choice"},
        BadField{R"("tool_choice": {"type": "function", "function": {"name": "zzz"}})", "tool_choice"}));

INSTANTIATE_TEST_SUITE_P(
    NotOffered, BadFields,
    testing::Values(
        BadField{R"("n": 2)", "n", kUnsupported}, BadField{R"("logprobs": true)", "logprobs", kUnsupported},
        BadField{R"("top_logprobs": 3)", "top_logprobs", kUnsupported},
        BadField{R"("functions": [])", "functions", kUnsupported},
        BadField{R"("function_call": "auto")", "function_call", kUnsupported},
        BadField{R"("audio": {})", "audio", kUnsupported},
        BadField{R"("web_search_options": {})", "web_search_options", kUnsupported},
        BadField{R"("modalities": ["text", "audio"])", "modalities", kUnsupported},
        BadField{R"("messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}])",
                 "messages[0].content[0].type", kUnsupported},
        BadField{R"("response_format": {"type": "json_object"})", "response_format.type", kUnsupported},
        BadField{R"("response_format": {"type": "json_schema", "json_schema": {}})", "response_format.type",
                 kUnsupported},
        BadField{R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required")",
                 "tool_choice", kUnsupported},
        BadField{R"("tools": [{"type": "function", "function": {"name": "f"}}],
                    "tool_choice": {"type": "function", "function": {"name": "f"}})",
                 "tool_choice", kUnsupported},
        BadField{R"("tool_choice": {"type": "allowed_tools"})", "tool_choice", kUnsupported}));

TEST(Request, AnotherModelIsNotFound) {
  const Refusal found = refusal(R"("model": "no-such-model")");
  EXPECT_EQ(found.kind, ErrorKind::not_found);
  EXPECT_EQ(found.param, "model");
  EXPECT_NE(found.message.find("\"lily\""), std::string::npos);
}

TEST(Request, LimitsOfTokens) {
  EXPECT_FALSE(parse(R"("max_tokens": -1)").generation.max_tokens);
  EXPECT_EQ(parse(R"("max_tokens": 50, "max_completion_tokens": 3)").generation.max_tokens, 3);
  EXPECT_EQ(parse(R"("max_tokens": 50, "max_completion_tokens": null)").generation.max_tokens, 50);
  EXPECT_EQ(parse(R"("top_k": -1)").generation.sampling.top_k, 0);
  EXPECT_EQ(parse(R"("stop": "x")").generation.stop_strings, std::vector<std::string>{"x"});
}

TEST(Request, ThinkingIsTurnedOffInEverySpelling) {
  for (const char* members :
       {R"("enable_thinking": false)", R"("chat_template_kwargs": {"enable_thinking": false})",
        R"("reasoning_effort": "none")", R"("reasoning_effort": "minimal")"}) {
    EXPECT_FALSE(std::get<ChatPrompt>(parse(members).generation.prompt).enable_thinking) << members;
  }
  for (const char* effort : {"low", "medium", "high", "xhigh"}) {
    const std::string members = fmt::format(R"("reasoning_effort": "{}")", effort);
    EXPECT_TRUE(std::get<ChatPrompt>(parse(members).generation.prompt).enable_thinking) << members;
  }
}

TEST(Request, ToolChoiceNoneHidesTheTools) {
  const char* tools = R"("tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": )";
  const ChatRequest hidden = parse(std::string(tools) + R"("none")");
  EXPECT_TRUE(std::get<ChatPrompt>(hidden.generation.prompt).tools.empty());
  EXPECT_FALSE(hidden.generation.parse_tool_calls);
  const ChatRequest shown = parse(std::string(tools) + R"("auto")");
  EXPECT_EQ(std::get<ChatPrompt>(shown.generation.prompt).tools.size(), 1U);
  EXPECT_TRUE(shown.generation.parse_tool_calls);
}

TEST(Request, BodiesThatAreNoRequest) {
  for (const char* text : {"", "{", "[]", "null", "\"x\"", "{} x", "{\"messages\": [}", "\xff"}) {
    EXPECT_EQ(refusal_of_body(text).kind, ErrorKind::bad_input) << text;
  }
  for (const char* text : {"{}", R"({"messages": null})", R"({"messages": []})", R"({"messages": {}})",
                           R"({"messages": "hi"})"}) {
    EXPECT_EQ(refusal_of_body(text).param, "messages") << text;
  }
  const std::string deep = R"({"messages": )" + std::string(100'000, '[');
  EXPECT_EQ(refusal_of_body(deep).kind, ErrorKind::bad_input);
}

TEST(Request, ValuesAreCountedBeforeATreeIsBuilt) {
  std::string many = R"({"messages": [)";
  for (std::size_t i = 0; i < serve::kMaxJsonValues; ++i) many += "1,";
  EXPECT_NE(refusal_of_body(many + "1]}").message.find("JSON values"), std::string::npos);
  EXPECT_NO_THROW(serve::check_json_values(R"({"a": "1,2,3,[[[{{{\",,,"})", 1));
  EXPECT_THROW(serve::check_json_values(R"({"a": [1, 2]})", 2), Error);
}

TEST(Request, EchoesAreShortWholeCharacters) {
  EXPECT_EQ(serve::shortened("abc", 5), "abc");
  EXPECT_EQ(serve::shortened("ääääää", 8), "ää…");
  EXPECT_EQ(serve::printable("a\r\nb\xff\x7f", 50), "a??b??");
  const Refusal found = refusal("\"" + std::string(5000, 'x') + "\": 1");
  EXPECT_LE(found.message.size(), serve::kMaxEcho);
  EXPECT_LE(found.param.size(), serve::kMaxEcho);
}

}  // namespace
}  // namespace lily::serve_test
