// Flags of `lily serve` that only a running server shows.
#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <string>

#include "serve/http_client.hpp"
#include "serve/process.hpp"
#include "support/fixtures.hpp"

namespace lily::testing {
namespace {

using namespace std::chrono_literals;

TEST(ServeCommand, passes_its_flags_to_the_server_and_the_engine) {
  serve_test::Process process({LILY_PROGRAM, "serve", "--model", kMini.string(), "--port", "0",
                               "--cors-origin", "https://pages.example", "--max-queue", "3", "--context",
                               "1024", "--kv", "int8", "--activations", "exact", "--threads", "1"});
  ASSERT_TRUE(process.wait_for_error_text("ready", 60s)) << process.error_text();
  const std::string& log = process.error_text();
  EXPECT_NE(log.find("1 thread)"), std::string::npos) << log;
  EXPECT_NE(log.find("context 1024"), std::string::npos) << log;
  EXPECT_NE(log.find("activations exact"), std::string::npos) << log;
  EXPECT_NE(log.find("kv int8"), std::string::npos) << log;

  const std::size_t address = log.find("listening on http://127.0.0.1:");
  ASSERT_NE(address, std::string::npos) << log;
  const int port = std::stoi(log.substr(log.find(':', address + 20) + 1));
  const serve_test::Reply reply = serve_test::get(port, "/v1/models", {{"Origin", "https://pages.example"}});
  EXPECT_EQ(reply.header("access-control-allow-origin"), "https://pages.example");
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(30s), std::optional<int>(0));
}

TEST(ServeCommand, an_ipv6_address_stands_in_brackets) {
  serve_test::Process process(
      {LILY_PROGRAM, "serve", "--model", kMini.string(), "--host", "::1", "--port", "0", "--threads", "1"});
  if (!process.wait_for_error_text("ready", 60s)) {
    ASSERT_NE(process.error_text().find("::1"), std::string::npos) << process.error_text();
    GTEST_SKIP() << "this machine has no IPv6: " << process.error_text();
  }
  EXPECT_NE(process.error_text().find("listening on http://[::1]:"), std::string::npos)
      << process.error_text();
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(30s), std::optional<int>(0));
}

}  // namespace
}  // namespace lily::testing
