// Risk: the log cannot answer what a request cost, or it keeps what people wrote.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "serve/request_log.hpp"
#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

// The log of one test.
class CapturedLog {
 public:
  CapturedLog() : former_(spdlog::default_logger()) {
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
  }
  ~CapturedLog() { spdlog::set_default_logger(former_); }
  std::string text() const { return text_.str(); }

 private:
  std::shared_ptr<spdlog::logger> former_;
  std::ostringstream text_;
};

TEST(Log, OneLinePerRequestWithSizesAndOutcome) {
  CapturedLog log;
  {
    TestServer server;
    chat(server.port(), body(), {{"X-Request-Id", "r1"}});
    chat(server.port(), body(R"("stream": true)"), {{"X-Request-Id", "r2"}});
    chat(server.port(), body(R"("temperature": "x")"), {{"X-Request-Id", "r3"}});
    get(server.port(), "/health");
  }
  const std::string text = log.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_NE(text.find("r1 POST /v1/chat/completions status=200 outcome=stop prompt=1 cached=0 completion=5 "
                      "reasoning=2 queued="),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("r2 POST /v1/chat/completions status=200 stream outcome=stop"), std::string::npos)
      << text;
  EXPECT_NE(text.find("r3 POST /v1/chat/completions status=400 outcome=invalid_value param=temperature"),
            std::string::npos)
      << text;
}

TEST(Log, NeverHoldsTextOrKeys) {
  CapturedLog log;
  {
    serve::ServerOptions options;
    options.api_keys = {"key-secret"};
    TestServer server(default_script, options);
    const RequestHeaders key = {{"Authorization", "Bearer key-secret"}};
    const std::string secret = R"({"messages": [{"role": "user", "content": "text-secret"}])";
    chat(server.port(), secret + "}", key);
    chat(server.port(), secret + R"(, "stop": 5})", key);
    chat(server.port(), secret, key);
    chat(server.port(), R"({"messages": [{"role": "text-secret"}]})", key);
    chat(server.port(), R"({"messages": [], "model": "text-secret"})", key);
    chat(server.port(), "{}", {{"Authorization", "Bearer other-secret"}});
  }
  EXPECT_NE(log.text(), "");
  EXPECT_EQ(log.text().find("secret"), std::string::npos) << log.text();
}

TEST(Log, LinesCannotBeForged) {
  CapturedLog log;
  {
    TestServer server;
    chat(server.port(), body("\"a\\nforged\": 1"));
    get(server.port(), "/x%0aforged");
  }
  EXPECT_EQ(log.text().find("\nforged"), std::string::npos) << log.text();
}

TEST(Log, Rates) {
  GenerationResult result;
  result.usage.prompt_tokens = 110;
  result.usage.cached_tokens = 10;
  result.usage.completion_tokens = 21;
  result.timing.prefill = std::chrono::duration<double>(0.5);
  result.timing.decode = std::chrono::duration<double>(2.0);
  EXPECT_DOUBLE_EQ(serve::rates_of(result).prefill, 200);
  EXPECT_DOUBLE_EQ(serve::rates_of(result).decode, 10);
  result.usage.completion_tokens = 1;
  result.timing = {};
  EXPECT_DOUBLE_EQ(serve::rates_of(result).prefill, 0);
  EXPECT_DOUBLE_EQ(serve::rates_of(result).decode, 0);
}

}  // namespace
}  // namespace lily::serve_test
