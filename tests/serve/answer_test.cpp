// Risk: strict clients cannot read an answer: shapes of buffered and streamed replies, usage, tool calls,
// errors.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

// A thought, a sentence and two calls in pieces.
Script with_calls(const GenerationRequest&) {
  Script script;
  script.deltas = {reasoning("let me look"), content("Looking. ")};
  const auto call = [&](std::size_t index, const char* id, const char* name, const char* arguments) {
    script.deltas.push_back({{}, {}, {{index, id, name, arguments}}});
  };
  call(0, "call_a", "read", "");
  call(0, "", "", R"({"path": )");
  call(0, "", "", R"("a\"ü"})");
  call(1, "call_b", "list", "{}");
  script.finish = FinishReason::tool_calls;
  return script;
}

Script only_call(const GenerationRequest&) {
  Script script;
  script.deltas = {{{}, {}, {{0, "call_a", "read", "{}"}}}};
  script.finish = FinishReason::tool_calls;
  return script;
}

Script failing(const GenerationRequest&) {
  Script script;
  script.deltas.assign(10, content("w"));
  script.fails_at = 3;
  return script;
}

// A stream's chunks folded back into one message.
struct Folded {
  std::string content, reasoning, finish_reason;
  std::vector<std::string> calls;  // "id name arguments"
  int finishes = 0;
};

Folded fold(const std::vector<Json>& chunks) {
  Folded folded;
  std::vector<std::array<std::string, 3>> calls;
  for (const Json& chunk : chunks) {
    folded.content += text_at(chunk, "choices[0].delta.content").value_or("");
    folded.reasoning += text_at(chunk, "choices[0].delta.reasoning_content").value_or("");
    const std::string finish = text_at(chunk, "choices[0].finish_reason").value_or("null");
    if (finish != "null") {
      folded.finish_reason = finish;
      ++folded.finishes;
    }
    for (int i = 0;; ++i) {
      const std::string path = fmt::format("choices[0].delta.tool_calls[{}]", i);
      const auto index = text_at(chunk, path + ".index");
      if (!index) break;
      if (std::stoul(*index) == calls.size()) {
        EXPECT_EQ(text_at(chunk, path + ".type"), "function");
        calls.push_back({*text_at(chunk, path + ".id"), *text_at(chunk, path + ".function.name"), ""});
      }
      calls[std::stoul(*index)][2] += text_at(chunk, path + ".function.arguments").value();
    }
  }
  for (const auto& [id, name, arguments] : calls) folded.calls.push_back(id + " " + name + " " + arguments);
  return folded;
}

TEST(Answer, BufferedShape) {
  TestServer server;
  const Reply reply = chat(server.port(), body());
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-type"), "application/json");
  EXPECT_EQ(reply.at("id")->substr(0, 9), "chatcmpl-");
  EXPECT_EQ(reply.at("object"), "chat.completion");
  EXPECT_EQ(reply.at("model"), "fake");
  EXPECT_EQ(reply.at("choices[0].index"), "0");
  EXPECT_EQ(reply.at("choices[0].finish_reason"), "stop");
  EXPECT_EQ(reply.at("choices[0].message.role"), "assistant");
  EXPECT_EQ(reply.at("choices[0].message.content"), "Hello there.");
  EXPECT_EQ(reply.at("choices[0].message.reasoning_content"), "hmm");
  EXPECT_FALSE(reply.at("choices[0].message.tool_calls"));
  EXPECT_EQ(reply.at("usage.prompt_tokens"), "1");
  EXPECT_EQ(reply.at("usage.completion_tokens"), "5");
  EXPECT_EQ(reply.at("usage.total_tokens"), "6");
  EXPECT_EQ(reply.at("usage.prompt_tokens_details.cached_tokens"), "0");
  EXPECT_EQ(reply.at("usage.completion_tokens_details.reasoning_tokens"), "2");
}

TEST(Answer, NoThoughtNoField) {
  TestServer server;
  const Reply reply = chat(server.port(), body(R"("reasoning_effort": "none")"));
  EXPECT_EQ(reply.at("choices[0].message.content"), "Hello there.");
  EXPECT_FALSE(reply.at("choices[0].message.reasoning_content"));
}

TEST(Answer, IdsAreUnique) {
  TestServer server;
  std::set<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.insert(chat(server.port(), body()).at("id").value());
  EXPECT_EQ(ids.size(), 5U);
}

TEST(Answer, ToolCallsBuffered) {
  TestServer server(with_calls);
  const Reply reply = chat(server.port(), body());
  const std::string message = "choices[0].message";
  EXPECT_EQ(reply.at("choices[0].finish_reason"), "tool_calls");
  EXPECT_EQ(reply.at(message + ".content"), "Looking. ");
  EXPECT_EQ(reply.at(message + ".tool_calls[0].id"), "call_a");
  EXPECT_EQ(reply.at(message + ".tool_calls[0].type"), "function");
  EXPECT_EQ(reply.at(message + ".tool_calls[0].function.name"), "read");
  EXPECT_EQ(reply.at(message + ".tool_calls[0].function.arguments"), R"({"path": "a\"ü"})");
  EXPECT_EQ(reply.at(message + ".tool_calls[1].id"), "call_b");
  EXPECT_FALSE(reply.at(message + ".tool_calls[2]"));
}

TEST(Answer, ContentIsNullBesideOnlyCalls) {
  TestServer server(only_call);
  EXPECT_EQ(chat(server.port(), body()).at("choices[0].message.content"), "null");
}

TEST(Answer, ReplyCanBeFedBack) {
  TestServer server(with_calls);
  const Json reply = chat(server.port(), body()).json();
  const Json& message = *reply.find("choices")->as_array()[0].find("message");
  const std::string next = fmt::format(
      R"({{"messages": [{{"role": "user", "content": "x"}}, {}, {{"role": "tool", "tool_call_id": "call_a", "content": "ok"}}]}})",
      message.dump());
  EXPECT_EQ(chat(server.port(), next).status, 200);
  const GenerationRequest request = server.engine.last_request();
  const Message& fed = std::get<ChatPrompt>(request.prompt).messages.at(1);
  EXPECT_EQ(fed.reasoning, "let me look");
  EXPECT_EQ(fed.tool_calls.size(), 2U);
}

TEST(Stream, OrderOfEvents) {
  TestServer server;
  const Reply reply =
      chat(server.port(), body(R"("stream": true, "stream_options": {"include_usage": true})"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.complete);
  EXPECT_EQ(reply.header("content-type"), "text/event-stream");
  EXPECT_EQ(reply.header("cache-control"), "no-cache");
  EXPECT_EQ(parse_events(reply.body).back().data, "[DONE]");
  const std::vector<Json> chunks = parse_chunks(reply.body);
  ASSERT_GE(chunks.size(), 4U);
  EXPECT_EQ(text_at(chunks.front(), "choices[0].delta.role"), "assistant");
  for (const Json& chunk : chunks) {
    EXPECT_EQ(text_at(chunk, "object"), "chat.completion.chunk");
    for (const char* name : {"id", "created", "model"}) {
      EXPECT_EQ(text_at(chunk, name), text_at(chunks.front(), name));
    }
    EXPECT_EQ(text_at(chunk, "usage") == "null", &chunk != &chunks.back());
  }
  EXPECT_EQ(text_at(chunks.back(), "choices"), "[]");
  EXPECT_EQ(text_at(chunks.back(), "usage.total_tokens"), "6");
  EXPECT_EQ(text_at(chunks[chunks.size() - 2], "choices[0].finish_reason"), "stop");
  EXPECT_EQ(fold(chunks).finishes, 1);
}

TEST(Stream, UsageOnlyWhenAsked) {
  TestServer server;
  for (const char* members : {R"("stream": true)", R"("stream": true, "stream_options": {})",
                              R"("stream": true, "stream_options": {"include_usage": false})"}) {
    const Reply reply = chat(server.port(), body(members));
    EXPECT_EQ(reply.body.find("usage"), std::string::npos) << members;
    EXPECT_EQ(parse_events(reply.body).back().data, "[DONE]");
  }
}

TEST(Stream, FoldsToTheBufferedAnswer) {
  for (const FakeEngine::Writer& writer :
       {FakeEngine::Writer(default_script), FakeEngine::Writer(with_calls)}) {
    TestServer server(writer);
    const Reply buffered = chat(server.port(), body());
    const Folded folded = fold(parse_chunks(chat(server.port(), body(R"("stream": true)")).body));
    EXPECT_EQ(folded.content, buffered.at("choices[0].message.content"));
    EXPECT_EQ(folded.reasoning, buffered.at("choices[0].message.reasoning_content"));
    EXPECT_EQ(folded.finish_reason, buffered.at("choices[0].finish_reason"));
    for (std::size_t i = 0; i < folded.calls.size(); ++i) {
      const std::string call = fmt::format("choices[0].message.tool_calls[{}]", i);
      EXPECT_EQ(folded.calls[i], *buffered.at(call + ".id") + " " + *buffered.at(call + ".function.name") +
                                     " " + *buffered.at(call + ".function.arguments"));
    }
  }
}

TEST(Stream, OldClientsGetNoChunkedCoding) {
  TestServer server;
  HttpClient client(server.port());
  const std::string text = body(R"("stream": true)");
  client.send(
      fmt::format("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", text.size(), text));
  const Reply reply = client.receive();
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("transfer-encoding"), "");
  EXPECT_TRUE(reply.connection_closed);
  EXPECT_EQ(parse_events(reply.body).back().data, "[DONE]");
}

TEST(Errors, WhatCanBeCheckedIsCheckedBeforeTheStatusLine) {
  TestServer server(default_script, {}, 8);
  for (const bool stream : {false, true}) {
    const std::string tail = stream ? R"(, "stream": true})" : "}";
    const Reply too_long =
        chat(server.port(), R"({"messages": [{"role": "user", "content": "a b c d e f g h i"}])" + tail);
    EXPECT_EQ(too_long.status, 400);
    EXPECT_EQ(too_long.at("error.code"), "context_length_exceeded");
    EXPECT_EQ(too_long.at("error.param"), "messages");
    EXPECT_EQ(too_long.at("error.message"), "the prompt has 9 tokens; the context holds 8");
    const Reply image = chat(
        server.port(),
        R"({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:AAAA"}}]}])" +
            tail);
    EXPECT_EQ(image.status, 400);
    EXPECT_EQ(image.at("error.param"), "messages[0].content[0]");
    EXPECT_EQ(image.body.find("AAAA"), std::string::npos);
    EXPECT_EQ(
        chat(server.port(), R"({"messages": [{"role": "user", "content": "a"}], "temperature": 9)" + tail)
            .at("error.param"),
        "temperature");
  }
}

TEST(Errors, LaterFaultsEndTheStreamWithAnEvent) {
  TestServer server(failing);
  const Reply reply = chat(server.port(), body(R"("stream": true)"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_TRUE(reply.complete);
  const std::vector<SseEvent> events = parse_events(reply.body);
  const Json last = Json::parse(events.back().data);
  EXPECT_EQ(text_at(last, "error.code"), "internal_error");
  EXPECT_EQ(text_at(last, "error.type"), "server_error");
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
  // The last byte reaches the client before the server lets go of the request.
  EXPECT_TRUE(eventually([&] { return get(server.port(), "/health").at("active") == "0"; }));
}

TEST(Errors, LaterFaultsOfABufferedReply) {
  TestServer server(failing);
  const Reply reply = chat(server.port(), body());
  EXPECT_EQ(reply.status, 500);
  EXPECT_EQ(reply.at("error.type"), "server_error");
}

TEST(Errors, KindsMapToStatuses) {
  const auto reply_to = [](ErrorKind kind) {
    TestServer server([kind](const GenerationRequest&) {
      Script script;
      script.deltas = {content("x")};
      script.fails_at = 0;
      script.failure = Error(kind, "what happened", "where");
      return script;
    });
    return chat(server.port(), body());
  };
  EXPECT_EQ(reply_to(ErrorKind::bad_input).status, 400);
  EXPECT_EQ(reply_to(ErrorKind::unsupported).status, 400);
  EXPECT_EQ(reply_to(ErrorKind::too_long).status, 400);
  EXPECT_EQ(reply_to(ErrorKind::not_found).status, 404);
  EXPECT_EQ(reply_to(ErrorKind::out_of_memory).status, 500);
  EXPECT_EQ(reply_to(ErrorKind::device).status, 500);
  EXPECT_EQ(reply_to(ErrorKind::internal).status, 500);
  const Reply overloaded = reply_to(ErrorKind::overloaded);
  EXPECT_EQ(overloaded.status, 503);
  EXPECT_NE(overloaded.header("retry-after"), "");
  EXPECT_EQ(reply_to(ErrorKind::bad_input).at("error.param"), "where");
}

TEST(Debug, SamplingValuesUsedAreShownWhenAsked) {
  serve::ServerOptions options;
  options.echo_sampling = true;
  TestServer server(default_script, options);
  EXPECT_EQ(chat(server.port(), body(R"("temperature": null)")).at("sampling.temperature"), "0.6");
  EXPECT_EQ(chat(server.port(), body(R"("temperature": 0.7)")).at("sampling.temperature"), "0.7");
  const std::vector<Json> chunks = parse_chunks(chat(server.port(), body(R"("stream": true)")).body);
  EXPECT_EQ(text_at(chunks.back(), "sampling.temperature"), "0.6");
  TestServer silent;
  EXPECT_FALSE(chat(silent.port(), body()).at("sampling"));
}

}  // namespace
}  // namespace lily::serve_test
