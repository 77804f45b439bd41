// Risk: `lily serve` as a process: ports, restarts, signals, keys. The recorded cases SRV-04, SRV-04.b and
// SRV-05.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "serve/http_client.hpp"
#include "serve/process.hpp"
#include "serve/running_server.hpp"

namespace lily::serve_test {
namespace {

using ::testing::AnyOf;
using ::testing::Optional;

constexpr const char* kEndless =
    R"({"messages": [{"role": "user", "content": "x"}], "stream": true, "ignore_eos": true, "max_tokens": 30000})";

std::string endless_request() { return request_text("POST", "/v1/chat/completions", kEndless); }

class ServeProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(LILY_PROGRAM)) GTEST_SKIP() << LILY_PROGRAM << " is not built";
  }
};

TEST_F(ServeProcess, ASecondServerOnThePortEndsAtOnce) {
  RunningServer first;
  ASSERT_TRUE(first.ready) << first.process.error_text();
  Process second(serve_command(first.port));
  const auto code = second.wait(2s);
  ASSERT_TRUE(code) << "still running";
  EXPECT_NE(*code, 0);
  EXPECT_NE(second.error_text().find("in use"), std::string::npos) << second.error_text();
  EXPECT_EQ(get(first.port, "/health").status, 200);
}

TEST_F(ServeProcess, RestartsWhileAnOldConnectionIsOpen) {
  int port = 0;
  std::optional<HttpClient> open;
  {
    RunningServer first;
    ASSERT_TRUE(first.ready) << first.process.error_text();
    port = first.port;
    open.emplace(port);
    open->send(request_text("GET", "/health"));
    EXPECT_EQ(open->receive().status, 200);
    first.process.signal(SIGTERM);
    EXPECT_THAT(first.process.wait(3s), Optional(0));
  }
  RunningServer second(port);
  EXPECT_TRUE(second.ready) << second.process.error_text();
}

class StopSignal : public ServeProcess, public ::testing::WithParamInterface<int> {};

TEST_P(StopSignal, EndsAStreamAndTheProcess) {
  RunningServer server;
  ASSERT_TRUE(server.ready) << server.process.error_text();
  HttpClient client(server.port);
  client.send(endless_request());
  ASSERT_TRUE(client.wait_for("reasoning_content"));
  server.process.signal(GetParam());
  EXPECT_THAT(server.process.wait(3s), Optional(0)) << server.process.error_text();
  const Reply reply = client.receive(1s);
  EXPECT_TRUE(client.closed_within(1s));
  EXPECT_NE(reply.body.find("server_stopping"), std::string::npos)
      << reply.body.substr(reply.body.size() / 2);
  EXPECT_EQ(reply.body.find("[DONE]"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Of, StopSignal, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& of) { return of.param == SIGINT ? "Interrupt" : "Terminate"; });

TEST_F(ServeProcess, ASecondSignalEndsItAtOnce) {
  RunningServer server;
  ASSERT_TRUE(server.ready) << server.process.error_text();
  HttpClient client(server.port);
  client.send(endless_request());
  ASSERT_TRUE(client.wait_for("data: "));
  server.process.signal(SIGTERM);
  server.process.signal(SIGINT);
  // 0 when the graceful way was quicker than the second signal.
  EXPECT_THAT(server.process.wait(1s), Optional(AnyOf(0, 128 + SIGINT, 128 + SIGTERM)));
}

TEST_F(ServeProcess, AStopDoesNotWaitForAHugePromptToBeEncoded) {
  RunningServer server;
  ASSERT_TRUE(server.ready) << server.process.error_text();
  HttpClient client(server.port);
  client.send(request_text(
      "POST", "/v1/chat/completions",
      R"({"messages": [{"role": "user", "content": ")" + std::string().append(60'000'000, 'a') + "\"}]}"));
  std::this_thread::sleep_for(500ms);
  server.process.signal(SIGTERM);
  EXPECT_THAT(server.process.wait(4s), Optional(0)) << server.process.error_text();
}

TEST_F(ServeProcess, LargeRequestsLeaveNothingBehind) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
  GTEST_SKIP() << "what is resident is the sanitizer's or another allocator's";
#endif
  RunningServer server;
  ASSERT_TRUE(server.ready) << server.process.error_text();
  const std::string large = R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, "user": ")" +
                            std::string().append(60'000'000, 'a') + "\"}";
  const auto ask = [&] { EXPECT_EQ(chat(server.port, large).status, 200); };
  ask();
  const long before = server.process.resident_mib();
  for (int i = 0; i < 4; ++i) ask();  // each on another thread
  EXPECT_LT(server.process.resident_mib(), before + 60);
}

TEST_F(ServeProcess, AsksForTheKeysOfAFile) {
  const auto keys = std::filesystem::temp_directory_path() / "lily-process-keys-test.txt";
  std::ofstream(keys) << "k1\n";
  RunningServer server(0, {"--api-key-file", keys.string()});
  std::filesystem::remove(keys);
  ASSERT_TRUE(server.ready) << server.process.error_text();
  EXPECT_EQ(get(server.port, "/v1/models").status, 401);
  EXPECT_EQ(get(server.port, "/v1/models", {{"Authorization", "Bearer k1"}}).status, 200);
  EXPECT_EQ(server.process.error_text().find("k1"), std::string::npos);
}

TEST_F(ServeProcess, BadFlagsEndWithAMessage) {
  for (const auto& [flag, value] :
       {std::pair("--host", "no such host"), std::pair("--api-key-file", "/no/such/file")}) {
    Process process(serve_command(0, {flag, value}));
    const auto code = process.wait(5s);
    ASSERT_TRUE(code) << flag;
    EXPECT_NE(*code, 0) << flag;
    EXPECT_NE(process.error_text().find("lily: error:"), std::string::npos) << process.error_text();
  }
}

}  // namespace
}  // namespace lily::serve_test
