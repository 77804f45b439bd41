// Risk: requests that wait hold more memory than their limits say.
#include <fmt/format.h>
#include <gtest/gtest.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <vector>

#include "serve/resident_memory.hpp"
#include "serve/test_server.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

namespace lily::serve_test {
namespace {

constexpr const char* kPath = "/v1/chat/completions";

FakeEngine::Writer slow() {
  return [](const GenerationRequest& request) { return endless_script(request, 20ms); };
}

TEST(Memory, ABodyIsForgottenOnceItIsRead) {
  if (kSanitized) GTEST_SKIP() << "resident memory under a sanitizer is mostly the sanitizer's";
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);  // as lily serve does: what is freed is no longer resident
#endif
  TestServer server(slow());
  const std::string padding = std::string().append(60'000'000, 'x');
  const std::string text = request_text("POST", kPath, body(R"("user": ")" + padding + "\""));
  const long before = resident_mib();
  HttpClient client(server.port());
  client.send(text);
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 1; }));
  EXPECT_LT(resident_mib() - before, 40);
}

TEST(Memory, StreamsCountAgainstTheBoundOnBodiesToo) {
  serve::ServerOptions options;
  options.max_body = 100'000;
  TestServer server(slow(), options);
  const std::string text = fmt::format(
      R"({{"messages": [{{"role": "user", "content": "{}"}}], "stream": true}})", std::string(90'000, 'x'));
  std::vector<HttpClient> streams;
  for (int i = 0; i < 4; ++i) {
    streams.emplace_back(server.port()).send(request_text("POST", kPath, text));
    ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == i + 1; }));
  }
  const Reply refused = chat(server.port(), text);
  ASSERT_EQ(refused.status, 503);
  EXPECT_EQ(refused.at("error.code"), "overloaded");
  streams.clear();
  ASSERT_TRUE(eventually([&] { return server.engine.in_generate() == 0; }));
  EXPECT_TRUE(eventually([&] {
    HttpClient next(server.port());
    next.send(request_text("POST", kPath, text));
    return next.wait_for("HTTP/1.1 200", 300ms);
  }));
}

}  // namespace
}  // namespace lily::serve_test
