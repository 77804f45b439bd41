// The HTTP/1.x transport. cpp-httplib parses heads, decodes bodies and frames replies; sockets, timeouts,
// limits and the decision which connection is kept are ours, because it neither bounds heads and chunked
// bodies nor lets a handler see whether its client is still there.
#include "serve/http_transport.hpp"

#include <httplib.h>
#include <strings.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <thread>

#include <fmt/format.h>

#include "serve/body_budget.hpp"
#include "serve/log.hpp"

namespace lily::serve {
namespace {

constexpr int kMaxRequestsPerConnection = 1000;
constexpr auto kPatienceWhenCrowded = std::chrono::seconds(1);
constexpr std::size_t kBodiesHeld = 4;  // whole bodies of the largest size that may be in memory at once

// What one connection's thread is doing. httplib hands its handlers a request and no connection, so each
// thread keeps its own here.
struct Exchange {
  explicit Exchange(Connection& socket) : connection(socket) {}
  Connection& connection;
  bool body_unread = false;  // of the present request: the connection cannot be used for another
  bool must_close = false;
};
thread_local Exchange* current_exchange = nullptr;

// The socket as httplib reads and writes it.
class ConnectionStream : public httplib::Stream {
 public:
  explicit ConnectionStream(Connection& connection) : connection_(connection) {}
  // read() and write() wait themselves. What else a stream must tell depends on httplib's version, so that
  // these cannot say `override`.
  bool is_readable() const override { return true; }
  bool is_writable() const { return true; }  // NOLINT: gone in later versions
  bool wait_readable() const { return true; }
  bool wait_writable() const { return true; }
  time_t duration() const { return 0; }
  ssize_t read(char* data, size_t size) override {
    const std::size_t count = connection_.read(data, size);
    if (count > 0) return static_cast<ssize_t>(count);
    return connection_.read_end() == Connection::ReadEnd::closed ? 0 : -1;
  }
  ssize_t write(const char* data, size_t size) override {
    return connection_.write({data, size}) ? static_cast<ssize_t>(size) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  // Asked for only to refuse descriptors that select() cannot hold; we poll().
  socket_t socket() const override { return 0; }

 private:
  Connection& connection_;
};

class StreamSink : public ByteSink {
 public:
  explicit StreamSink(httplib::DataSink& sink) : sink_(sink) {}
  bool write(std::string_view bytes) override { return sink_.write(bytes.data(), bytes.size()); }

 private:
  httplib::DataSink& sink_;
};

bool is_chunked(const httplib::Request& request) {
  return strcasecmp(request.get_header_value("Transfer-Encoding").c_str(), "chunked") == 0;
}

HttpRequest plain_request(const httplib::Request& request) {
  HttpRequest plain{request.method, request.path, {}, {}};
  plain.headers.assign(request.headers.begin(), request.headers.end());
  return plain;
}

void close_after_reply(httplib::Response& response) {
  current_exchange->must_close = true;
  if (!response.has_header("Connection")) response.set_header("Connection", "close");
}

void fill(const httplib::Request& request, httplib::Response& response, HttpReply reply) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  if (current_exchange->body_unread || request.version == "HTTP/1.0") close_after_reply(response);
  if (!reply.stream) {
    if (!reply.body.empty()) response.set_content(reply.body, reply.content_type);
    return;
  }
  const auto provider = [stream = std::move(reply.stream)](std::size_t, httplib::DataSink& sink) {
    StreamSink bytes(sink);
    stream(bytes);
    sink.done();
    return true;
  };
  // HTTP/1.0 knows no chunks: there the end of the connection ends the body.
  if (request.version == "HTTP/1.0") {
    response.set_content_provider(reply.content_type, provider);
  } else {
    response.set_chunked_content_provider(reply.content_type, provider);
  }
}

}  // namespace

class HttpTransport::Implementation : private httplib::Server {
 public:
  Implementation(const Listener& listener, Application& application, StopEvent& stop,
                 const TransportOptions& options)
      : application_(application), stop_(stop), options_(options), bodies_(kBodiesHeld * options.max_body) {
    svr_sock_ = listener.descriptor;
    set_payload_max_length(SIZE_MAX);  // judge_body() and answer_body() hold the limit
    set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(options.idle_timeout).count());
    set_keep_alive_max_count(kMaxRequestsPerConnection);
    new_task_queue = [this] { return new httplib::ThreadPool(static_cast<std::size_t>(options_.threads)); };
    set_pre_routing_handler(
        [this](const auto& request, auto& response) { return answer_head(request, response); });
    Post(".*", [this](const auto& request, auto& response, const auto& reader) {
      answer_body(request, response, reader);
    });
    set_expect_100_continue_handler([this](const auto& request, auto& response) {
      return refused(request, response) ? response.status : 100;
    });
    set_error_handler(HandlerWithResponse(
        [this](const auto& request, auto& response) { return complete_error(request, response); }));
    set_exception_handler([this](const auto& request, auto& response, const std::exception_ptr&) {
      close_after_reply(response);
      fill(request, response,
           application_.refuse(plain_request(request), 500, "the server failed to answer this request"));
    });
    accepting_ = std::thread([this] { listen_after_bind(); });
    while (!is_running()) std::this_thread::yield();
  }

  void join() {
    if (!accepting_.joinable()) return;
    httplib::Server::stop();
    accepting_.join();
  }

 private:
  // Serves one accepted socket to its end.
  bool process_and_close_socket(socket_t descriptor) override {
    Connection connection(descriptor, stop_, options_.connection);
    ConnectionStream stream(connection);
    Exchange exchange(connection);
    current_exchange = &exchange;
    connections_ += 1;
    // With threads running short, connections that say nothing must not keep those waiting that have no
    // thread yet.
    auto patience = options_.connection.read_timeout;
    if (crowded()) patience = std::min<std::chrono::milliseconds>(patience, kPatienceWhenCrowded);
    for (int served = 0; connection.await_request(patience); ++served) {
      // Nor may those that were answered.
      const bool last = crowded() || served + 1 == kMaxRequestsPerConnection;
      bool closed = false;
      exchange.body_unread = false;
      connection.begin_head();
      const auto head_read = [&connection](httplib::Request& request) {
        connection.end_head();
        request.ranges.clear();  // replies are made anew each time; there is nothing to take a range of
      };
      if (!process(*this, stream, last, closed, head_read)) break;
      if (last || closed || exchange.must_close) break;
      patience = options_.idle_timeout;
    }
    if (exchange.body_unread) connection.drain();
    connections_ -= 1;
    current_exchange = nullptr;
    return true;
  }

  // Later versions of httplib take the addresses of both ends too, which nothing here reads.
  template <typename Self>
  static bool process(Self& self, ConnectionStream& stream, bool last, bool& closed,
                      const std::function<void(httplib::Request&)>& head_read) try {
    if constexpr (requires { self.process_request(stream, last, closed, head_read); }) {
      return self.process_request(stream, last, closed, head_read);
    } else {
      return self.process_request(stream, "", 0, "", 0, last, closed, head_read);
    }
  } catch (const std::exception& error) {
    // httplib guards its routing but not the writing of streams; no request may end the process.
    log_error(fmt::format("a reply was broken off: {}", error.what()));
    return false;
  }

  bool crowded() const { return connections_ > options_.threads * 3 / 4; }

  // Replies from the head alone where that is possible.
  HandlerResponse answer_head(const httplib::Request& request, httplib::Response& response) {
    if (refused(request, response)) return HandlerResponse::Handled;
    if (request.method == "POST") return HandlerResponse::Unhandled;
    current_exchange->body_unread = has_body(request);
    fill(request, response, application_.handle(plain_request(request), current_exchange->connection));
    return HandlerResponse::Handled;
  }

  bool refused(const httplib::Request& request, httplib::Response& response) {
    std::optional<HttpReply> refusal = application_.admit(plain_request(request));
    if (!refusal && request.method == "POST") refusal = judge_body(request);
    if (!refusal) return false;
    current_exchange->body_unread = has_body(request);
    fill(request, response, std::move(*refusal));
    return true;
  }

  // 0 without the header; nothing when it is no number.
  static std::optional<std::size_t> length_of(const httplib::Request& request) {
    if (!request.has_header("Content-Length")) return 0;
    const std::string text = request.get_header_value("Content-Length");
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    if (error == std::errc::result_out_of_range) return SIZE_MAX;
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return length;
  }

  // Whatever the method: left unread, a body must not be taken for the next request.
  static bool has_body(const httplib::Request& request) {
    return request.has_header("Transfer-Encoding") || length_of(request) != std::size_t{0};
  }

  // Whether the body can be read. A proxy in front may see another end where lengths are in doubt, so that
  // what follows it could be another client's request.
  std::optional<HttpReply> judge_body(const httplib::Request& request) {
    const HttpRequest plain = plain_request(request);
    const std::size_t lengths = request.get_header_value_count("Content-Length");
    const std::size_t codings = request.get_header_value_count("Transfer-Encoding");
    if (codings > 0 && (codings > 1 || !is_chunked(request))) {
      return application_.refuse(plain, 400, "Transfer-Encoding may only be chunked");
    }
    if (lengths + codings > 1) return application_.refuse(plain, 400, "the body's length is given twice");
    // httplib would take a form apart before a handler sees it.
    if (request.is_multipart_form_data()) {
      return application_.refuse(plain, 415, "the request body must be JSON, not multipart/form-data");
    }
    if (codings > 0) return std::nullopt;
    if (lengths == 0) {
      return application_.refuse(plain, 411, "a request body needs Content-Length or chunked coding");
    }
    const std::optional<std::size_t> length = length_of(request);
    if (!length) return application_.refuse(plain, 400, "Content-Length is not a number");
    if (*length > options_.max_body) return application_.refuse(plain, 413, too_large());
    return std::nullopt;
  }

  std::string too_large() const {
    return fmt::format("the request body is larger than the limit of {} bytes", options_.max_body);
  }

  void answer_body(const httplib::Request& request, httplib::Response& response,
                   const httplib::ContentReader& reader) {
    Exchange& exchange = *current_exchange;
    HttpRequest plain = plain_request(request);
    int fault = 0;
    {
      const auto share = std::make_shared<BodyBudget::Share>(bodies_);
      const bool complete = reader([&](const char* data, std::size_t size) {
        // Here and not by httplib's own limit, which chunked and compressed bodies escape.
        if (plain.body.size() + size > options_.max_body) {
          fault = 413;
        } else if (!share->take(size)) {
          fault = 503;
        } else {
          plain.body.append(data, size);
        }
        return fault == 0;
      });
      if (complete) {
        HttpReply reply = application_.handle(std::move(plain), exchange.connection);
        // What was read of the body is held as long as it is answered.
        if (reply.stream) {
          reply.stream = [share, stream = std::move(reply.stream)](ByteSink& sink) { stream(sink); };
        }
        fill(request, response, std::move(reply));
        return;
      }
    }
    exchange.body_unread = exchange.connection.read_end() == Connection::ReadEnd::none;
    exchange.must_close = true;
    if (fault == 0) fault = exchange.connection.read_end() == Connection::ReadEnd::timed_out ? 408 : 400;
    const std::string reason = fault == 413   ? too_large()
                               : fault == 503 ? "the memory for request bodies is in use; try again"
                               : fault == 408 ? "the request body did not arrive in time"
                                              : "the request body is cut short or its coding is broken";
    fill(request, response, application_.refuse(plain_request(request), fault, reason));
  }

  // Fills in replies that httplib itself makes, such as to a malformed head.
  HandlerResponse complete_error(const httplib::Request& request, httplib::Response& response) {
    if (response.body.empty() && !response.content_provider_) {
      current_exchange->body_unread = true;  // nobody knows what follows a malformed head
      const char* reason =
          response.status == 414 ? "the request target is too long" : "the request head is malformed";
      fill(request, response, application_.refuse(plain_request(request), response.status, reason));
    }
    return HandlerResponse::Handled;
  }

  Application& application_;
  StopEvent& stop_;
  const TransportOptions options_;
  BodyBudget bodies_;
  std::atomic<int> connections_{0};
  std::thread accepting_;
};

HttpTransport::HttpTransport(const Listener& listener, Application& application, StopEvent& stop,
                             const TransportOptions& options)
    : implementation_(std::make_unique<Implementation>(listener, application, stop, options)) {}

HttpTransport::~HttpTransport() { join(); }

void HttpTransport::join() { implementation_->join(); }

}  // namespace lily::serve
