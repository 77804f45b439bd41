// Runs a script of tests/serve/openai-client with the official OpenAI client against a server of this
// machine.
#pragma once

#include <optional>
#include <string>

namespace lily::serve_test {

// Why no script can run here; nothing when one can.
std::optional<std::string> openai_client_missing();

struct ScriptResult {
  std::string output;
  int status = -1;
};

ScriptResult run_openai_client(const std::string& script, int port);

}  // namespace lily::serve_test
