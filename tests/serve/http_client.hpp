// A client at the level of bytes, so that tests can send what no library would and watch when bytes arrive.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lily/json.hpp"

namespace lily::serve_test {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct Reply {
  int status = 0;                              // 0: the connection ended without a status line
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks joined
  bool complete = false;                       // as long as its head promised
  bool connection_closed = false;

  Json json() const { return Json::parse(body); }
  std::string header(const std::string& name) const;
  // Text at a path such as "error.param" or "choices[0].message.content"; a number as spelled; null as
  // "null"; nothing where there is no such member.
  std::optional<std::string> at(std::string_view path) const;
};

// Text at a path in any JSON value, as Reply::at.
std::optional<std::string> text_at(const Json& json, std::string_view path);

struct SseEvent {
  std::string data;     // of a data event
  std::string comment;  // of a comment
};
std::vector<SseEvent> parse_events(std::string_view body);
// The data events that are JSON.
std::vector<Json> parse_chunks(std::string_view body);

class HttpClient {
 public:
  explicit HttpClient(int port, int receive_buffer = 0);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient(const HttpClient&) = delete;

  void send(std::string_view bytes);
  // Reads until the reply is complete, the peer closes or time is up.
  Reply receive(std::chrono::milliseconds patience = 10s, bool head_request = false);
  // Reads what comes until `text` has been seen. False: closed or late. What was read stays for receive().
  bool wait_for(std::string_view text, std::chrono::milliseconds patience = 10s);
  // Waits for the peer to close.
  bool closed_within(std::chrono::milliseconds patience);
  void close();

  const std::string& received() const { return received_; }
  std::chrono::milliseconds longest_silence() const { return longest_silence_; }

 private:
  bool read_some(Clock::time_point deadline);

  int descriptor_ = -1;
  std::string received_;
  bool closed_ = false;
  Clock::time_point last_byte_ = Clock::now();
  std::chrono::milliseconds longest_silence_{0};
};

using RequestHeaders = std::vector<std::pair<std::string, std::string>>;
std::string request_text(std::string_view method, std::string_view path, std::string_view body = {},
                         const RequestHeaders& headers = {});

Reply request(int port, std::string_view method, std::string_view path, std::string_view body = {},
              const RequestHeaders& headers = {}, std::chrono::milliseconds patience = 10s);
Reply get(int port, std::string_view path, const RequestHeaders& headers = {});
Reply chat(int port, std::string_view body, const RequestHeaders& headers = {});

}  // namespace lily::serve_test
