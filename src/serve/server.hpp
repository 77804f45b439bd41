// The OpenAI-compatible HTTP face of one engine. Start here; docs/server-api.md is its contract.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "lily/engine.hpp"

namespace lily::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                                  // 0: any free one, see Server::port()
  std::vector<std::string> api_keys;                // empty: no key is asked for
  std::string cors_origin;                          // "": pages on this machine; "*": all; else this origin
  std::string model_id;                             // served name; "": EngineInfo::model_id
  int max_queue = 64;                               // generations waiting; beyond it 503
  std::size_t max_body = std::size_t{64} << 20;     // bytes of one request body
  std::chrono::milliseconds keepalive{10'000};      // longest silence of a stream before a comment line
  std::chrono::milliseconds read_timeout{15'000};   // for a request's head, and between bytes of its body
  std::chrono::milliseconds write_timeout{10'000};  // a reader stalled this long is given up
  bool echo_sampling = false;  // add the sampling values used to each reply, for debugging
};

// Thread-safe. Serving goes on in background threads from construction to stop():
//
//   Server server(options);                           // a port in use fails here, before weights are read
//   StopSignals signals(server);                      // serve/signals.hpp
//   const auto engine = Engine::open(engine_options); // GET /health says "loading"
//   server.attach(*engine);
//   server.run();                                     // until stop() or a signal
class Server {
 public:
  // Binds and listens. Throws Error: bad_input (host, keys, limits), device (the address is in use or
  // refused).
  explicit Server(ServerOptions options);
  ~Server();  // stops first
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const noexcept;

  // From now on requests reach `engine`, which must live until run() returns or the server is destroyed.
  void attach(Engine& engine);
  bool attached() const noexcept;

  // Blocks until stop() was called and the last connection has ended.
  void run();

  // Accepts no more, cancels the work in progress and ends open streams with an error event. Returns at once.
  void stop() noexcept;

 private:
  class Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace lily::serve
