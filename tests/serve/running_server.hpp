// `lily serve` as a process on a small model, ready to answer.
#pragma once

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve/http_client.hpp"
#include "serve/process.hpp"
#include "support/fixtures.hpp"

namespace lily::serve_test {

// Generous: sanitizers and a busy machine are slow to load.
inline constexpr auto kStart = 20s;

inline std::vector<std::string> serve_command(int port, std::vector<std::string> more = {},
                                              const std::filesystem::path& model = testing::kTinyQ4) {
  std::vector<std::string> command = {LILY_PROGRAM,         "serve",     "--model", model.string(), "--port",
                                      std::to_string(port), "--threads", "1"};
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

// A server that is ready, on a port of its own choice when `port` is 0.
class RunningServer {
 public:
  explicit RunningServer(int wanted_port = 0, std::vector<std::string> more = {},
                         const std::filesystem::path& model = testing::kTinyQ4)
      : process(serve_command(wanted_port, std::move(more), model)) {
    if (!process.wait_for_error_text("ready", kStart)) return;
    const std::string& log = process.error_text();
    const std::size_t address = log.find("listening on http://");
    port = std::stoi(log.substr(log.find(':', address + 20) + 1));
    for (int tries = 0; tries < 200 && !ready; ++tries) {
      ready = get(port, "/health").status == 200;  // "ready" is written just before requests are let in
      if (!ready) std::this_thread::sleep_for(5ms);
    }
  }
  Process process;
  int port = 0;
  bool ready = false;
};

}  // namespace lily::serve_test
