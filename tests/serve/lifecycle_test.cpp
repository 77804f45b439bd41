// Risk: the server cannot be started, restarted or stopped when it should: ports, open connections, signals.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "lily/error.hpp"
#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

constexpr const char* kPath = "/v1/chat/completions";

Script slow(const GenerationRequest& request) { return endless_script(request, 20ms); }

TEST(Lifecycle, APortInUseIsToldAtOnce) {
  TestServer first;
  serve::ServerOptions options;
  options.port = first.port();
  try {
    serve::Server second(options);
    FAIL() << "two servers share a port";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_NE(std::string(error.what()).find("in use"), std::string::npos) << error.what();
  }
}

TEST(Lifecycle, APortIsFreeAgainWhileAnOldConnectionLingers) {
  std::optional<TestServer> first(std::in_place);
  serve::ServerOptions options;
  options.port = first->port();
  HttpClient open(first->port());
  open.send(request_text("GET", "/health"));
  EXPECT_EQ(open.receive().status, 200);
  first.reset();
  serve::Server second(options);
  EXPECT_EQ(get(options.port, "/health").at("status"), "loading");
}

TEST(Lifecycle, StopEndsStreamsWithAnErrorEvent) {
  TestServer server(slow);
  HttpClient client(server.port());
  client.send(request_text("POST", kPath, body(R"("stream": true)")));
  ASSERT_TRUE(client.wait_for("\"w \"", 2s));
  const auto start = Clock::now();
  server.server.stop();
  server.server.run();
  EXPECT_LT(Clock::now() - start, 1s);
  const Reply reply = client.receive();
  EXPECT_TRUE(reply.complete);
  EXPECT_TRUE(client.closed_within(1s));
  EXPECT_EQ(text_at(Json::parse(parse_events(reply.body).back().data), "error.code"), "server_stopping");
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
}

TEST(Lifecycle, StopAnswersBufferedAndQueuedRequests) {
  TestServer server(slow);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(server.port()).send(request_text("POST", kPath, body()));
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 4; }));
  server.server.stop();
  server.server.run();
  EXPECT_EQ(server.engine.in_generate(), 0);
  for (HttpClient& client : clients) {
    const Reply reply = client.receive();
    EXPECT_EQ(reply.status, 503);
    EXPECT_EQ(reply.at("error.code"), "server_stopping");
  }
}

TEST(Lifecycle, StopDoesNotWaitForIdleOrStalledClients) {
  TestServer server([](const GenerationRequest& request) { return endless_script(request, 0ms); });
  HttpClient idle(server.port());
  HttpClient half(server.port());
  half.send("POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{");
  HttpClient stalled(server.port(), 4096);
  stalled.send(request_text("POST", kPath, body(R"("stream": true)")));
  ASSERT_TRUE(eventually([&] { return server.engine.tokens_made() > 1000; }));
  const auto start = Clock::now();
  server.server.stop();
  server.server.run();
  EXPECT_LT(Clock::now() - start, 3s);
}

TEST(Lifecycle, StopDoesNotWaitForSlowReaders) {
  serve::ServerOptions options;
  options.write_timeout = 60s;
  TestServer server([](const GenerationRequest& request) { return endless_script(request, 0ms); }, options);
  HttpClient client(server.port(), 4096);
  client.send(request_text("POST", kPath, body(R"("stream": true)")));
  ASSERT_TRUE(eventually([&] { return server.engine.runs_ended() == 1; }));
  // It takes some of the backlog four times a second, so that no single write ever times out.
  std::jthread reader([&](const std::stop_token& done) {
    while (!done.stop_requested()) {
      client.closed_within(1ms);
      std::this_thread::sleep_for(250ms);
    }
  });
  const auto start = Clock::now();
  server.server.stop();
  server.server.run();
  EXPECT_LT(Clock::now() - start, 3s);
}

TEST(Lifecycle, StopBeforeAnEngineIsAttached) {
  serve::Server server(TestServer::on_free_port({}));
  server.stop();
  server.stop();
  server.run();
  EXPECT_THROW(HttpClient client(server.port()), std::runtime_error);
}

}  // namespace
}  // namespace lily::serve_test
