// Risk: the official client disagrees with our reading of its interface.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

// Installed by tools/setup.sh from tests/serve/openai-client/package-lock.json.
const std::filesystem::path kClient = std::filesystem::path(LILY_SOURCE_DIR) / "build/openai-client";
const std::filesystem::path kCheck =
    std::filesystem::path(LILY_SOURCE_DIR) / "tests/serve/openai-client/check.mjs";

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

struct ProcessResult {
  std::string output;
  int status = -1;
};

ProcessResult run(const std::string& command) {
  ProcessResult result;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) result.output += buffer;
  result.status = pclose(pipe);
  return result;
}

TEST(OpenAiClient, ChatStreamsToolsErrorsAndAborts) {
  if (run("node --version").status != 0) GTEST_SKIP() << "node is not installed";
  if (!std::filesystem::exists(kClient / "node_modules/openai")) {
    GTEST_SKIP() << "the client is not installed: tools/setup.sh puts it into " << kClient;
  }
  serve::ServerOptions options;
  options.api_keys = {"k1"};
  TestServer server(scripted, options);
  const ProcessResult result = run(
      fmt::format("node '{}' '{}' http://127.0.0.1:{}/v1", kCheck.string(), kClient.string(), server.port()));
  EXPECT_EQ(result.status, 0) << result.output;
  // Both aborted requests ended, or they would still be running: "slow" has no end of its own.
  EXPECT_TRUE(eventually([&] { return server.engine.in_generate() == 0; }, 2s));
}

}  // namespace
}  // namespace lily::serve_test
