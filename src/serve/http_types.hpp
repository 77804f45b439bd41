// HTTP as the rest of the server sees it: plain requests and replies, and the seams to the transport.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lily::serve {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;
  HttpHeaders headers;
  std::string body;  // empty until Application::handle

  // The first header of that name in any case, or "".
  std::string_view header(std::string_view name) const noexcept;
};

// Where a streamed reply goes. False: the client is gone or stalled, and nothing more can be sent.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual bool write(std::string_view bytes) = 0;
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;
  std::string body;
  std::function<void(ByteSink&)> stream;  // when set, writes the body while it is made
};

// The client at the other end, while its request is being answered.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual bool gone() const = 0;      // it closed the connection or stopped sending for good
  virtual bool stopping() const = 0;  // the server is about to end
};

// What the transport serves. Called from many threads at once.
class Application {
 public:
  virtual ~Application() = default;
  // Judges a request by its head, before any of its body is read: a refusal, or nothing to go on.
  virtual std::optional<HttpReply> admit(const HttpRequest& request) = 0;
  // Answers a request that was admitted. `peer` outlives the reply's stream.
  virtual HttpReply handle(HttpRequest request, const Peer& peer) = 0;
  // The reply to what the transport could not read: a malformed head (400), a body cut short (400), late
  // (408) or too large (413), without a length (411) or with one in doubt (400), a form (415), a target too
  // long (414), memory for bodies used up (503), a fault of ours (500).
  virtual HttpReply refuse(const HttpRequest& request, int status, std::string_view reason) = 0;
};

}  // namespace lily::serve
