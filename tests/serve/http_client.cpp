// The byte-level client.
#include "serve/http_client.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace lily::serve_test {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return text;
}

// Decodes chunked coding as far as it goes; true when the last chunk was seen.
bool join_chunks(std::string_view coded, std::string& body) {
  for (;;) {
    const std::size_t line = coded.find("\r\n");
    if (line == std::string_view::npos) return false;
    const std::size_t size = std::stoul(std::string(coded.substr(0, line)), nullptr, 16);
    coded.remove_prefix(line + 2);
    if (size == 0) return coded.substr(0, 2) == "\r\n";
    if (coded.size() < size + 2) {
      body += coded.substr(0, size);
      return false;
    }
    body += coded.substr(0, size);
    coded.remove_prefix(size + 2);
  }
}

// What has arrived so far as a reply.
Reply parse_reply(std::string_view bytes, bool closed, bool head_request) {
  Reply reply;
  reply.connection_closed = closed;
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return reply;
  std::string_view head = bytes.substr(0, end + 2);
  reply.status = std::stoi(std::string(head.substr(head.find(' ') + 1, 3)));
  for (head.remove_prefix(head.find("\r\n") + 2); !head.empty(); head.remove_prefix(head.find("\r\n") + 2)) {
    const std::string_view line = head.substr(0, head.find("\r\n"));
    const std::size_t colon = line.find(':');
    reply.headers[lower(std::string(line.substr(0, colon)))] = line.substr(std::min(line.size(), colon + 2));
  }
  const std::string_view body = bytes.substr(end + 4);
  if (head_request || reply.status == 204) {
    reply.complete = true;
  } else if (lower(reply.header("transfer-encoding")) == "chunked") {
    reply.complete = join_chunks(body, reply.body);
  } else if (reply.headers.count("content-length") != 0) {
    reply.body = body;
    reply.complete = body.size() >= std::stoul(reply.header("content-length"));
  } else {
    reply.body = body;
    reply.complete = closed;
  }
  return reply;
}

}  // namespace

std::string Reply::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::optional<std::string> Reply::at(std::string_view path) const { return text_at(json(), path); }

std::optional<std::string> text_at(const Json& json, std::string_view path) {
  const Json* value = &json;
  while (!path.empty() && value != nullptr) {
    if (path.front() == '.') path.remove_prefix(1);
    if (path.front() == '[') {
      const std::size_t index = std::stoul(std::string(path.substr(1)));
      path.remove_prefix(path.find(']') + 1);
      value = value->is_array() && index < value->as_array().size() ? &value->as_array()[index] : nullptr;
    } else {
      const std::string_view name = path.substr(0, path.find_first_of(".["));
      path.remove_prefix(name.size());
      value = value->find(name);
    }
  }
  if (value == nullptr) return std::nullopt;
  return value->is_string() ? value->as_string() : value->dump();
}

std::vector<SseEvent> parse_events(std::string_view body) {
  std::vector<SseEvent> events;
  while (!body.empty()) {
    const std::size_t end = body.find("\n\n");
    const std::string_view event = body.substr(0, end);
    if (event.substr(0, 6) == "data: ") {
      events.push_back({std::string(event.substr(6)), {}});
    } else if (event.substr(0, 2) == ": ") {
      events.push_back({{}, std::string(event.substr(2))});
    } else {
      throw std::runtime_error(fmt::format("neither a data event nor a comment: {}", event));
    }
    body.remove_prefix(end == std::string_view::npos ? body.size() : end + 2);
  }
  return events;
}

std::vector<Json> parse_chunks(std::string_view body) {
  std::vector<Json> chunks;
  for (const SseEvent& event : parse_events(body)) {
    if (!event.data.empty() && event.data != "[DONE]") chunks.push_back(Json::parse(event.data));
  }
  return chunks;
}

HttpClient::HttpClient(int port, int receive_buffer)
    : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0)
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(descriptor_);
    throw std::runtime_error(fmt::format("cannot connect to port {}", port));
  }
}

HttpClient::~HttpClient() { close(); }

HttpClient::HttpClient(HttpClient&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}

void HttpClient::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;  // the server may refuse and close before it has read everything
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

bool HttpClient::read_some(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd set = {descriptor_, POLLIN, 0};
  if (closed_ || left <= 0 || poll(&set, 1, static_cast<int>(left)) <= 0) return false;
  char buffer[65536];
  const auto count = recv(descriptor_, buffer, sizeof(buffer), 0);
  if (count <= 0) {
    closed_ = true;
    return false;
  }
  const auto now = Clock::now();
  longest_silence_ =
      std::max(longest_silence_, std::chrono::duration_cast<std::chrono::milliseconds>(now - last_byte_));
  last_byte_ = now;
  received_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

Reply HttpClient::receive(std::chrono::milliseconds patience, bool head_request) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    Reply reply = parse_reply(received_, closed_, head_request);
    if (reply.complete) {
      received_.clear();
      return reply;
    }
    if (!read_some(deadline)) return parse_reply(received_, closed_, head_request);
  }
}

bool HttpClient::wait_for(std::string_view text, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (received_.find(text) == std::string::npos) {
    if (!read_some(deadline)) return false;
  }
  return true;
}

bool HttpClient::closed_within(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (read_some(deadline)) {
  }
  return closed_;
}

std::string request_text(std::string_view method, std::string_view path, std::string_view body,
                         const RequestHeaders& headers) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: test\r\n", method, path);
  for (const auto& [name, value] : headers) text += fmt::format("{}: {}\r\n", name, value);
  if (method == "POST") text += fmt::format("Content-Length: {}\r\n", body.size());
  return text.append("\r\n").append(body);
}

Reply request(int port, std::string_view method, std::string_view path, std::string_view body,
              const RequestHeaders& headers, std::chrono::milliseconds patience) {
  HttpClient client(port);
  client.send(request_text(method, path, body, headers));
  return client.receive(patience, method == "HEAD");
}

Reply get(int port, std::string_view path, const RequestHeaders& headers) {
  return request(port, "GET", path, {}, headers);
}

Reply chat(int port, std::string_view body, const RequestHeaders& headers) {
  return request(port, "POST", "/v1/chat/completions", body, headers);
}

}  // namespace lily::serve_test
