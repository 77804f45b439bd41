// Puts the parts of the server together.
#include "serve/server.hpp"

#include <fmt/core.h>

#include "serve/api.hpp"
#include "serve/api_keys.hpp"
#include "serve/http_transport.hpp"
#include "serve/listener.hpp"
#include "serve/log.hpp"
#include "serve/stop_event.hpp"

namespace lily::serve {
namespace {

constexpr int kMaxQueue = 1024;  // each waiting request holds two threads

// Connections beyond those that wait for an answer: /health, /v1/models, refusals, idle clients.
constexpr int kSpareThreads = 32;

ServerOptions checked(ServerOptions options) {
  using namespace std::chrono_literals;
  check_api_keys(options.api_keys);
  if (options.max_queue < 0 || options.max_queue > kMaxQueue) {
    throw Error(ErrorKind::bad_input,
                fmt::format("max_queue is {}; it must be between 0 and {}", options.max_queue, kMaxQueue),
                "max_queue");
  }
  if (options.keepalive <= 0ms || options.read_timeout <= 0ms || options.write_timeout <= 0ms) {
    throw Error(ErrorKind::bad_input, "the server's time limits must be positive");
  }
  return options;
}

TransportOptions transport_options(const ServerOptions& options) {
  TransportOptions transport;
  transport.connection.read_timeout = options.read_timeout;
  transport.connection.write_timeout = options.write_timeout;
  transport.max_body = options.max_body;
  transport.threads = options.max_queue + 1 + kSpareThreads;
  return transport;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.substr(0, 4) == "127.";
}

}  // namespace

class Server::Implementation {
 public:
  explicit Implementation(const ServerOptions& options)
      : listener(listen_on(options.host, options.port)),
        api(options),
        transport(listener, api, stop, transport_options(options)) {
    if (options.api_keys.empty() && !is_loopback(options.host)) {
      log_warning(fmt::format(
          "listening on {} without an API key: everyone who reaches this address can use the model",
          options.host));
    }
  }

  ~Implementation() { stop.set(); }  // the transport then joins

  StopEvent stop;
  Listener listener;
  Api api;
  HttpTransport transport;
};

Server::Server(ServerOptions options)
    : implementation_(std::make_unique<Implementation>(checked(std::move(options)))) {}

Server::~Server() = default;

int Server::port() const noexcept { return implementation_->listener.port; }

void Server::attach(Engine& engine) { implementation_->api.attach(engine); }

bool Server::attached() const noexcept { return implementation_->api.attached(); }

void Server::run() {
  implementation_->stop.wait();
  implementation_->transport.join();
}

void Server::stop() noexcept { implementation_->stop.set(); }

}  // namespace lily::serve
