// Risk: client and server disagree where a request ends, so that one client's body is answered as another's
// request.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/api.hpp"
#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

constexpr const char* kPost = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n";
constexpr const char* kSmuggled = "GET /v1/models HTTP/1.1\r\n\r\n";

class Framing : public testing::Test {
 protected:
  // What comes back until the server closes. A body taken for a request would add a second reply.
  std::string exchange(std::string_view bytes) {
    HttpClient client(server.port());
    client.send(bytes);
    EXPECT_TRUE(client.closed_within(3s));
    return client.received();
  }
  static int replies(const std::string& text) {
    int count = 0;
    for (std::size_t at = text.find("HTTP/1.1 "); at != text.npos; at = text.find("HTTP/1.1 ", at + 1))
      ++count;
    return count;
  }

  TestServer server;
};

TEST_F(Framing, ABodyWhereNoneBelongsIsNoRequest) {
  for (const char* method : {"GET", "HEAD", "OPTIONS", "DELETE"}) {
    SCOPED_TRACE(method);
    const std::string length =
        fmt::format("{} /health HTTP/1.1\r\nContent-Length: 27\r\n\r\n{}", method, kSmuggled);
    EXPECT_EQ(replies(exchange(length)), 1);
    const std::string chunked = fmt::format(
        "{} /health HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1b\r\n{}\r\n0\r\n\r\n", method, kSmuggled);
    EXPECT_EQ(replies(exchange(chunked)), 1);
  }
}

TEST_F(Framing, LengthsInDoubtAre400s) {
  const std::string text = body();
  const std::string size = std::to_string(text.size());
  const std::string doubtful[] = {
      "Content-Length: " + size + "\r\nContent-Length: " + std::to_string(text.size() + 27),
      "Content-Length: 5\r\nTransfer-Encoding: chunked",
      "Content-Length: " + size + "\r\nTransfer-Encoding: gzip, chunked",
      "Transfer-Encoding: gzip, chunked",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
  };
  for (const std::string& headers : doubtful) {
    SCOPED_TRACE(headers);
    const std::string reply = exchange(fmt::format("{}{}\r\n\r\n{}{}", kPost, headers, text, kSmuggled));
    EXPECT_EQ(reply.substr(0, 12), "HTTP/1.1 400") << reply;
    EXPECT_EQ(replies(reply), 1) << reply;
  }
}

TEST_F(Framing, FormsAreRefusedAsSuch) {
  for (const std::string_view text :
       {std::string_view("{}"), std::string_view("--x\r\nContent-Disposition: form-data; "
                                                 "name=\"a\"\r\n\r\nhi\r\n--x--\r\n")}) {
    const Reply reply = chat(server.port(), text, {{"Content-Type", "multipart/form-data; boundary=x"}});
    EXPECT_EQ(reply.status, 415);
    EXPECT_EQ(reply.at("error.type"), "invalid_request_error");
  }
}

TEST(Refusals, AFaultOfOursIsNoOverload) {
  serve::Api api(serve::ServerOptions{});
  const auto code_of = [&](int status) {
    return text_at(Json::parse(api.refuse({"POST", "/v1/chat/completions", {}, {}}, status, "why").body),
                   "error.code");
  };
  EXPECT_EQ(code_of(500), "internal_error");
  EXPECT_EQ(code_of(503), "overloaded");
}

}  // namespace
}  // namespace lily::serve_test
