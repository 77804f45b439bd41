// The HTTP/1.x transport: connections, threads, parsing and framing, over cpp-httplib. Knows nothing of
// models.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "serve/connection.hpp"
#include "serve/http_types.hpp"
#include "serve/listener.hpp"
#include "serve/stop_event.hpp"

namespace lily::serve {

struct TransportOptions {
  ConnectionLimits connection;
  std::size_t max_body = 0;
  int threads = 0;  // connections served at once; more wait for one of them to end
  std::chrono::milliseconds idle_timeout{5'000};  // of a kept connection between two requests
};

class HttpTransport {
 public:
  // Takes ownership of the listener and serves it on background threads until `stop` is set and join() is
  // called.
  HttpTransport(const Listener& listener, Application& application, StopEvent& stop,
                const TransportOptions& options);
  ~HttpTransport();
  HttpTransport(const HttpTransport&) = delete;
  HttpTransport& operator=(const HttpTransport&) = delete;

  // After `stop` was set: closes the listener and waits for the last connection. Idempotent.
  void join();

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lily::serve
