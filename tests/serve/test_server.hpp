// A server on a free port with a scripted engine behind it.
#pragma once

#include <string>

#include "serve/fake_engine.hpp"
#include "serve/http_client.hpp"
#include "serve/server.hpp"

namespace lily::serve_test {

class TestServer {
 public:
  explicit TestServer(FakeEngine::Writer writer = default_script, serve::ServerOptions options = {},
                      int context = 4096)
      : engine(std::move(writer), context), server(on_free_port(std::move(options))) {
    server.attach(engine);
  }
  int port() const { return server.port(); }

  static serve::ServerOptions on_free_port(serve::ServerOptions options) {
    options.port = 0;
    return options;
  }

  FakeEngine engine;
  serve::Server server;
};

// A body with one user message and, after it, more members: `body(R"("stream": true)")`.
inline std::string body(std::string_view members = {}) {
  std::string text = R"({"messages": [{"role": "user", "content": "hi"}])";
  if (!members.empty()) text.append(", ").append(members);
  return text + "}";
}

// Waits until `condition` holds. False: it did not in time.
template <typename Condition>
bool eventually(Condition condition, std::chrono::milliseconds patience = 5s) {
  const auto deadline = Clock::now() + patience;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

}  // namespace lily::serve_test
