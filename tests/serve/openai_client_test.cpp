// Risk: the official client disagrees with our reading of its interface.
#include <gtest/gtest.h>

#include "serve/openai_script.hpp"
#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

// What check.mjs expects.
Script scripted(const GenerationRequest& request) {
  const auto& prompt = std::get<ChatPrompt>(request.prompt);
  const Message& last = prompt.messages.back();
  const std::string text = last.content.empty() ? "" : last.content.front().text;
  Script script = default_script(request);
  if (text == "fail") {
    script.deltas.assign(10, content("w"));
    script.fails_at = 3;
  } else if (text == "slow") {
    script = endless_script(request, 10ms);
  } else if (!prompt.tools.empty() && last.role == Role::user) {
    script.deltas = {{{}, {}, {{0, "call_1", "read", ""}}},
                     {{}, {}, {{0, "", "", R"({"path": "a\")"}}},
                     {{}, {}, {{0, "", "", "ü\"}"}}}};
    script.finish = FinishReason::tool_calls;
  }
  return script;
}

TEST(OpenAiClient, ChatStreamsToolsErrorsAndAborts) {
  if (const auto reason = openai_client_missing()) GTEST_SKIP() << *reason;
  serve::ServerOptions options;
  options.api_keys = {"k1"};
  TestServer server(scripted, options);
  const ScriptResult result = run_openai_client("check.mjs", server.port());
  EXPECT_EQ(result.status, 0) << result.output;
  // Both aborted requests ended, or they would still be running: "slow" has no end of its own.
  EXPECT_TRUE(eventually([&] { return server.engine.in_generate() == 0; }, 2s));
}

}  // namespace
}  // namespace lily::serve_test
