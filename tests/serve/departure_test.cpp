// Risk: work goes on for clients that are gone, or one slow client holds up the rest.
#include <gtest/gtest.h>

#include <thread>

#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

constexpr const char* kPath = "/v1/chat/completions";

FakeEngine::Writer slow(std::chrono::milliseconds per_token) {
  return [per_token](const GenerationRequest& request) { return endless_script(request, per_token); };
}

std::string endless(bool stream) { return body(stream ? R"("stream": true)" : R"("max_tokens": 100000)"); }

class Departure : public testing::TestWithParam<bool> {};

TEST_P(Departure, WhileDecodingEndsTheRunWithinTwoTokens) {
  constexpr auto kToken = 100ms;
  TestServer server(slow(kToken));
  HttpClient client(server.port());
  client.send(request_text("POST", kPath, endless(GetParam())));
  ASSERT_TRUE(eventually([&] { return server.engine.tokens_made() >= 3; }));
  client.close();
  const int made = server.engine.tokens_made();
  ASSERT_TRUE(eventually([&] { return server.engine.runs_ended() == 1; }));
  EXPECT_LE(server.engine.tokens_made(), made + 2);
  EXPECT_TRUE(eventually([&] { return get(server.port(), "/health").at("active") == "0"; }, 1s));
}

TEST_P(Departure, WhilePrefillingEndsTheRun) {
  TestServer server([](const GenerationRequest& request) {
    Script script = endless_script(request, 0ms);
    script.chunks = 1000;
    script.per_chunk = 20ms;
    return script;
  });
  HttpClient client(server.port());
  client.send(request_text("POST", kPath, endless(GetParam())));
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return server.engine.runs_ended() == 1; }, 500ms));
  EXPECT_EQ(server.engine.tokens_made(), 0);
}

TEST_P(Departure, WhileQueuedLeavesTheQueue) {
  TestServer server(slow(20ms));
  HttpClient first(server.port());
  first.send(request_text("POST", kPath, endless(true)));
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 1; }));
  HttpClient second(server.port());
  second.send(request_text("POST", kPath, endless(GetParam())));
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 2; }));
  second.close();
  EXPECT_TRUE(eventually([&] { return server.engine.in_generate() == 1; }, 500ms));
  // The server counts a request as active until its own bookkeeping is done, just after the engine's.
  EXPECT_TRUE(eventually([&] { return get(server.port(), "/health").at("active") == "1"; }));
}

INSTANTIATE_TEST_SUITE_P(Of, Departure, testing::Bool(),
                         [](const auto& of) { return of.param ? "Stream" : "Buffered"; });

TEST(SlowReader, IsGivenUpAndOthersAreServed) {
  serve::ServerOptions options;
  options.write_timeout = 300ms;
  TestServer server(slow(0ms), options);
  HttpClient stalled(server.port(), 4096);
  stalled.send(request_text("POST", kPath, endless(true)));
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 1; }));
  const Reply reply = request(server.port(), "POST", kPath, body(R"("max_tokens": 20)"), {}, 5s);
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.at("usage.completion_tokens"), "20");
  // Given up early, not at its end: what it did not read was never made.
  EXPECT_LT(server.engine.tokens_made(), 100'000);
}

TEST(SlowReader, CostsABoundedAmountOfMemory) {
  serve::ServerOptions options;
  options.write_timeout = 60s;  // so that only the bound on unread deltas can end it
  TestServer server(slow(0ms), options);
  HttpClient stalled(server.port(), 4096);
  stalled.send(request_text("POST", kPath, endless(true)));
  EXPECT_TRUE(eventually([&] { return server.engine.runs_ended() == 1; }));
  EXPECT_LT(server.engine.tokens_made(), 100'000);
  stalled.close();
}

TEST(SlowReader, LearnsThatItsAnswerIsNotWhole) {
  serve::ServerOptions options;
  options.write_timeout = 60s;
  TestServer server(slow(0ms), options);
  HttpClient late(server.port(), 32768);
  late.send(request_text("POST", kPath, endless(true)));
  ASSERT_TRUE(eventually([&] { return server.engine.runs_ended() == 1; }));
  ASSERT_TRUE(late.wait_for("client_too_slow", 30s));
  const Reply reply = late.receive();
  ASSERT_TRUE(reply.complete);
  EXPECT_EQ(text_at(parse_chunks(reply.body).back(), "error.code"), "client_too_slow");
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
}

TEST(Queue, IsBoundedAndAnsweredInOrder) {
  serve::ServerOptions options;
  options.max_queue = 2;
  TestServer server(slow(5ms), options);
  std::vector<HttpClient> clients;
  std::vector<int> served;
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back(server.port()).send(request_text("POST", kPath, body(R"("max_tokens": 40)")));
    ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == i + 1; }));
  }
  for (const bool stream : {false, true}) {
    const Reply refused = chat(server.port(), endless(stream));
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.at("error.code"), "overloaded");
    EXPECT_NE(refused.header("retry-after"), "");
  }
  std::vector<Clock::time_point> ends;
  std::vector<std::thread> readers;
  ends.resize(clients.size());
  for (std::size_t i = 0; i < clients.size(); ++i) {
    readers.emplace_back([&, i] {
      EXPECT_EQ(clients[i].receive().status, 200);
      ends[i] = Clock::now();
    });
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_LT(ends[0], ends[1]);
  EXPECT_LT(ends[1], ends[2]);
}

TEST(Queue, APlaceIsFreeBeforeTheLastEventTellsTheClient) {
  serve::ServerOptions options;
  options.max_queue = 0;
  TestServer server(default_script, options);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 50; ++i) {
    HttpClient& client = clients.emplace_back(server.port());
    client.send(request_text("POST", kPath, body(R"("stream": true)")));
    ASSERT_TRUE(client.wait_for("[DONE]")) << i << ": " << client.received();
  }
}

TEST(Queue, OtherEndpointsAnswerWhile64Wait) {
  TestServer server(slow(20ms));
  std::vector<HttpClient> clients;
  for (int i = 0; i < 65; ++i)
    clients.emplace_back(server.port()).send(request_text("POST", kPath, endless(i % 2 == 0)));
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 65; }));
  const auto start = Clock::now();
  const Reply health = get(server.port(), "/health");
  EXPECT_EQ(health.at("active"), "65");
  EXPECT_EQ(health.at("limit"), "65");
  EXPECT_EQ(get(server.port(), "/v1/models").status, 200);
  EXPECT_EQ(chat(server.port(), endless(false)).status, 503);
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(Silence, IsBrokenByCommentsWhileQueuedAndPrefilling) {
  serve::ServerOptions options;
  options.keepalive = 200ms;
  TestServer server(
      [](const GenerationRequest& request) {
        Script script = default_script(request);
        script.chunks = 2;
        script.per_chunk = 500ms;
        return script;
      },
      options);
  HttpClient first(server.port());
  HttpClient second(server.port());
  first.send(request_text("POST", kPath, body(R"("stream": true)")));
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 1; }));
  second.send(request_text("POST", kPath, body(R"("stream": true)")));
  ASSERT_TRUE(second.wait_for("data: ", 300ms)) << "headers and the role come before the prefill";
  const Reply reply = second.receive();
  EXPECT_LE(second.longest_silence(), 300ms);
  std::string comments;
  for (const SseEvent& event : parse_events(reply.body)) comments += event.comment + ";";
  EXPECT_NE(comments.find("queued;"), std::string::npos) << comments;
  EXPECT_NE(comments.find("prompt 0/1;"), std::string::npos) << comments;
  EXPECT_EQ(parse_events(reply.body).back().data, "[DONE]");
}

}  // namespace
}  // namespace lily::serve_test
