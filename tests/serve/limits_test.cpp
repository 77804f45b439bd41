// Risk: hostile or broken input crashes, hangs or fills the server. After each the server must answer as
// before.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

constexpr const char* kPath = "/v1/chat/completions";

class Limits : public testing::Test {
 protected:
  static serve::ServerOptions tight() {
    serve::ServerOptions options;
    options.max_body = 1 << 20;
    options.read_timeout = 400ms;
    return options;
  }
  void TearDown() override {
    EXPECT_EQ(get(server.port(), "/health").status, 200);
    EXPECT_EQ(chat(server.port(), body()).status, 200);
  }
  // Sends bytes and returns what comes back.
  Reply exchange(std::string_view bytes, std::chrono::milliseconds patience = 5s) {
    HttpClient client(server.port());
    client.send(bytes);
    return client.receive(patience);
  }

  TestServer server{default_script, tight()};
};

void expect_error(const Reply& reply, int status) {
  EXPECT_EQ(reply.status, status);
  ASSERT_TRUE(reply.complete) << reply.body;
  for (const char* member : {"error.message", "error.type", "error.param", "error.code"}) {
    EXPECT_TRUE(reply.at(member)) << member << " of " << reply.body;
  }
}

TEST_F(Limits, MalformedRequestsAreClear400s) {
  const std::string deep = R"({"messages":)" + std::string(100'000, '[');
  const std::string_view bodies[] = {"",
                                     "{",
                                     "[]",
                                     "nonsense",
                                     R"({"messages":{}})",
                                     R"({"messages":[]})",
                                     R"({"messages":"hi"})",
                                     R"({"messages":[5]})",
                                     R"({"messages":[{"role":"user","content":5}]})",
                                     R"({"messages":[{"role":"narrator","content":"x"}]})",
                                     R"({"messages":[{"role":"user","content":"x"}],"temperature":"hot"})",
                                     R"({"messages":[{"role":"user","content":"x"}],"unheard_of":1})",
                                     "{\"messages\":[{\"role\":\"user\",\"content\":\"\xc4\xe3\"}]}",
                                     R"({"messages":[{"role":"user","content":"half \ud83d"}]})",
                                     deep};
  for (const std::string_view text : bodies) {
    SCOPED_TRACE(std::string(text.substr(0, 100)));
    const Reply reply = chat(server.port(), text);
    expect_error(reply, 400);
    EXPECT_EQ(reply.at("error.type"), "invalid_request_error");
    EXPECT_GT(reply.at("error.message")->size(), 10U);
    EXPECT_LT(reply.body.size(), 600U);
  }
}

TEST_F(Limits, LargeBodiesAre413InEveryForm) {
  const std::string large =
      R"({"messages":[{"role":"user","content":")" + std::string(2'000'000, 'a') + "\"}]}";
  const Reply by_length = chat(server.port(), large);
  expect_error(by_length, 413);
  std::string chunked =
      fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", kPath);
  chunked += fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", large.size(), large);
  expect_error(exchange(chunked), 413);
  const auto with_length = [&](const char* length) {
    return exchange(
        fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{{", kPath, length));
  };
  expect_error(with_length("999999999999999"), 413);
  for (const char* length : {"-1", "1e3", "0x10", "five"}) expect_error(with_length(length), 400);
}

TEST_F(Limits, ExpectIsAnsweredBeforeTheBody) {
  HttpClient client(server.port());
  const std::string text = body();
  client.send(fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n",
                          kPath, text.size()));
  ASSERT_TRUE(client.wait_for("HTTP/1.1 100 Continue\r\n\r\n", 300ms));
  client.send(text);
  EXPECT_TRUE(client.wait_for("HTTP/1.1 200 OK", 2s));
  expect_error(
      exchange(fmt::format(
          "POST {} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9000000\r\n\r\n", kPath)),
      413);
}

TEST_F(Limits, ChunkedBodiesAreOrdinaryBodies) {
  const Reply reply = exchange(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\n{\"mes\r\n9\r\nsages\":[]\r\n1\r\n}\r\n0\r\n\r\n");
  expect_error(reply, 400);
  EXPECT_EQ(reply.at("error.param"), "messages");
  expect_error(
      exchange("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
      400);
}

TEST_F(Limits, BodiesNeedALength) {
  expect_error(exchange("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n"), 411);
}

TEST_F(Limits, HeadsThatAreNoHttp) {
  for (const std::string_view head :
       {"nonsense\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9\r\n\r\n", "\x16\x03\x01\x02\r\n\r\n"}) {
    expect_error(exchange(head), 400);
  }
  EXPECT_EQ(exchange("GET /health HTTP/1.1\r\nRange: bytes=0-1\r\n\r\n").at("status"), "ok");
}

TEST_F(Limits, HeadsThatNeverEndAreClosed) {
  HttpClient wide(server.port());
  wide.send("GET /health HTTP/1.1\r\n");
  for (int i = 0; i < 2000; ++i) wide.send(fmt::format("X-{}: {}\r\n", i, std::string(100, 'x')));
  EXPECT_TRUE(wide.closed_within(2s));
  // One byte now and then never reaches the timeout between bytes; the whole head has one of its own.
  HttpClient slow(server.port());
  slow.send("GET /health HTTP/1.1\r\nX: ");
  bool closed = false;
  for (int i = 0; i < 30 && !closed; ++i) {
    slow.send("x");
    closed = slow.closed_within(50ms);
  }
  EXPECT_TRUE(closed);
}

TEST_F(Limits, BodiesThatStopComingAreGivenUp) {
  HttpClient late(server.port());
  late.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"messages\":[");
  expect_error(late.receive(2s), 408);
  HttpClient cut(server.port());
  cut.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"messages\":[");
  cut.close();
}

TEST_F(Limits, BodiesThatDripAreGivenUp) {
  HttpClient slow(server.port());
  slow.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n");
  bool answered = false;
  for (int i = 0; i < 40 && !answered; ++i) {
    slow.send(" ");
    answered = slow.wait_for("HTTP/1.1 408", 50ms);
  }
  EXPECT_TRUE(answered);
}

TEST_F(Limits, ManyIdleConnectionsKeepNobodyOut) {
  std::vector<HttpClient> idle;
  idle.reserve(90);
  for (int i = 0; i < 90; ++i) idle.emplace_back(server.port());
  const auto start = Clock::now();
  EXPECT_EQ(get(server.port(), "/health").status, 200);
  EXPECT_LT(Clock::now() - start, 1s);
}

TEST(Connections, MoreIdleOnesThanThreadsDelayNobodyForLong) {
  TestServer server;
  std::vector<HttpClient> idle;
  idle.reserve(150);
  for (int i = 0; i < 150; ++i) idle.emplace_back(server.port());
  const auto start = Clock::now();
  EXPECT_EQ(get(server.port(), "/health").status, 200);
  EXPECT_LT(Clock::now() - start, 8s);
}

TEST_F(Limits, ConnectionsAreKept) {
  HttpClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(request_text("POST", kPath, body()));
    EXPECT_EQ(client.receive().status, 200);
    client.send(request_text("GET", "/v1/models"));
    EXPECT_EQ(client.receive().status, 200);
    client.send(request_text("POST", kPath, body(R"("stream": true)")));
    EXPECT_TRUE(client.receive().complete);
  }
}

TEST(BodyBudget, BoundsAllBodiesTogether) {
  serve::ServerOptions options;
  options.max_body = 100'000;
  TestServer server(default_script, options);
  std::vector<HttpClient> senders;
  const std::string part(90'000, ' ');
  for (int i = 0; i < 5; ++i) {
    senders.emplace_back(server.port())
        .send(fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: 99000\r\n\r\n{}", kPath, part));
  }
  // Four fit; whichever came last does not.
  int refused = 0;
  for (HttpClient& sender : senders) refused += sender.wait_for("HTTP/1.1 503", 300ms) ? 1 : 0;
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace lily::serve_test
