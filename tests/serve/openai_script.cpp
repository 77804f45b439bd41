// Runs a script with the official OpenAI client.
#include "serve/openai_script.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>

namespace lily::serve_test {
namespace {

// Installed by tools/setup.sh from tests/serve/openai-client/package-lock.json.
const std::filesystem::path kClient = std::filesystem::path(LILY_SOURCE_DIR) / "build/openai-client";
const std::filesystem::path kScripts = std::filesystem::path(LILY_SOURCE_DIR) / "tests/serve/openai-client";

ScriptResult run(const std::string& command) {
  ScriptResult result;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) result.output += buffer;
  result.status = pclose(pipe);
  return result;
}

}  // namespace

std::optional<std::string> openai_client_missing() {
  if (run("node --version").status != 0) return "node is not installed";
  if (!std::filesystem::exists(kClient / "node_modules/openai")) {
    return "the client is not installed: tools/setup.sh puts it into " + kClient.string();
  }
  return std::nullopt;
}

ScriptResult run_openai_client(const std::string& script, int port) {
  return run(fmt::format("node '{}' '{}' http://127.0.0.1:{}/v1", (kScripts / script).string(),
                         kClient.string(), port));
}

}  // namespace lily::serve_test
