// Risk: the wrong people get in or the right ones do not: keys, browsers, unknown paths, a model still
// loading.
#include <gtest/gtest.h>

#include <fstream>

#include "lily/error.hpp"
#include "serve/api_keys.hpp"
#include "serve/test_server.hpp"

namespace lily::serve_test {
namespace {

serve::ServerOptions with_key() {
  serve::ServerOptions options;
  options.api_keys = {"k1", "k2-._~+/="};
  return options;
}

TEST(Access, KeysOpenTheDoor) {
  TestServer server(default_script, with_key());
  EXPECT_EQ(get(server.port(), "/health").status, 200);
  EXPECT_EQ(get(server.port(), "/v1/models").status, 401);
  EXPECT_EQ(get(server.port(), "/v1/models", {{"Authorization", "bearer k1"}}).status, 200);
  EXPECT_EQ(get(server.port(), "/v1/models", {{"Authorization", "Bearer k2-._~+/="}}).status, 200);
  EXPECT_EQ(get(server.port(), "/v1/models", {{"x-api-key", "k1"}}).status, 200);
  for (const char* wrong :
       {"Bearer k1x", "Bearer k", "Bearer ", "Bearer", "k1", "Basic k1", "Bearer k1 k1"}) {
    const Reply reply = get(server.port(), "/v1/models", {{"Authorization", wrong}});
    EXPECT_EQ(reply.status, 401) << wrong;
    EXPECT_EQ(reply.at("error.code"), "invalid_api_key");
    EXPECT_EQ(reply.header("www-authenticate"), "Bearer");
  }
}

TEST(Access, TheKeyIsCheckedBeforeTheBodyIsRead) {
  TestServer server(default_script, with_key());
  HttpClient client(server.port());
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{");
  const Reply reply = client.receive(2s);
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.header("connection"), "close");
}

TEST(Access, WithoutAKeyEveryHeaderIsAccepted) {
  TestServer server;
  EXPECT_EQ(get(server.port(), "/v1/models", {{"Authorization", "Bearer anything"}}).status, 200);
}

TEST(Access, KeyFiles) {
  const auto path = std::filesystem::temp_directory_path() / "lily-api-keys-test.txt";
  const auto write = [&](const char* text) { std::ofstream(path) << text; };
  write("# for the team\n\n  k1  \r\nk2\n");
  EXPECT_EQ(serve::read_api_keys(path), (std::vector<std::string>{"k1", "k2"}));
  for (const char* bad : {"", "# nothing\n", "two words\n", "percent%41\n", "caf\xc3\xa9\n"}) {
    write(bad);
    EXPECT_THROW(serve::read_api_keys(path), Error) << bad;
  }
  std::filesystem::remove(path);
  EXPECT_THROW(serve::read_api_keys(path), Error);
  EXPECT_THROW(serve::check_api_keys({"ok", "not ok"}), Error);
}

TEST(Access, PreflightNeedsNoKey) {
  serve::ServerOptions options = with_key();
  options.cors_origin = "*";
  TestServer server(default_script, options);
  const Reply reply = request(server.port(), "OPTIONS", "/v1/chat/completions", {},
                              {{"Origin", "http://localhost:5173"},
                               {"Access-Control-Request-Method", "POST"},
                               {"Access-Control-Request-Headers", "authorization,x-stainless-os"}});
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.header("access-control-allow-headers"), "authorization,x-stainless-os");
  EXPECT_NE(reply.header("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_EQ(reply.header("access-control-allow-origin"), "*");
}

TEST(Access, EchoedHeadersCannotBreakTheReply) {
  TestServer server;
  const Reply reply = request(server.port(), "OPTIONS", "/v1/models", {},
                              {{"Origin", "http://localhost%0d%0aSet-Cookie:x"},
                               {"Access-Control-Request-Headers", "a%0d%0aSet-Cookie:x"},
                               {"X-Request-Id", "r%0d%0aSet-Cookie:x"}});
  EXPECT_EQ(reply.status, 204);
  EXPECT_EQ(reply.header("set-cookie"), "");
}

TEST(Access, OriginsByConfiguration) {
  const auto allowed = [](const std::string& option, const std::string& origin) {
    serve::ServerOptions options;
    options.cors_origin = option;
    TestServer server(default_script, options);
    return get(server.port(), "/v1/models", {{"Origin", origin}}).header("access-control-allow-origin");
  };
  EXPECT_EQ(allowed("", "http://localhost:5173"), "http://localhost:5173");
  EXPECT_EQ(allowed("", "http://127.0.0.1"), "http://127.0.0.1");
  EXPECT_EQ(allowed("", "http://[::1]:80"), "http://[::1]:80");
  EXPECT_EQ(allowed("", "https://evil.example"), "");
  EXPECT_EQ(allowed("", "http://localhost.evil.example"), "");
  EXPECT_EQ(allowed("", "null"), "");
  EXPECT_EQ(allowed("*", "https://any.example"), "*");
  EXPECT_EQ(allowed("https://app.example", "https://app.example"), "https://app.example");
  EXPECT_EQ(allowed("https://app.example", "http://localhost:5173"), "");
}

// A page needs no permission to send a request whose reply it may not read, and a name of its own that points
// here to read it too.
TEST(Access, ForeignPagesMakeNobodyWorkWithoutAKey) {
  TestServer open;
  for (const char* foreign : {"https://evil.example", "http://localhost.evil.example:8080", "null"}) {
    const RequestHeaders origin = {{"Origin", foreign}, {"Content-Type", "text/plain"}};
    const Reply refused = chat(open.port(), body(), origin);
    EXPECT_EQ(refused.status, 403) << foreign;
    EXPECT_EQ(refused.at("error.code"), "origin_not_allowed");
    EXPECT_NE(refused.at("error.message").value_or("").find(foreign), std::string::npos);
    EXPECT_EQ(get(open.port(), "/v1/models", origin).status, 403);
    EXPECT_EQ(get(open.port(), "/health", origin).status, 200);
  }
  EXPECT_EQ(chat(open.port(), body(), {{"Origin", "http://localhost:5173"}}).status, 200);

  TestServer keyed(default_script, with_key());
  EXPECT_EQ(chat(keyed.port(), body(), {{"Origin", "https://evil.example"}, {"x-api-key", "k1"}}).status,
            200);
  EXPECT_EQ(chat(keyed.port(), body(), {{"Origin", "https://evil.example"}}).status, 401);
}

TEST(Access, ErrorsAndStreamsCarryTheOriginToo) {
  TestServer server(default_script, with_key());
  const RequestHeaders origin = {{"Origin", "http://localhost:1"}};
  EXPECT_EQ(chat(server.port(), body(), origin).header("access-control-allow-origin"), "http://localhost:1");
  const RequestHeaders keyed = {{"Origin", "http://localhost:1"}, {"x-api-key", "k1"}};
  const Reply stream = chat(server.port(), body(R"("stream": true)"), keyed);
  EXPECT_EQ(stream.status, 200);
  EXPECT_EQ(stream.header("access-control-allow-origin"), "http://localhost:1");
  EXPECT_EQ(chat(server.port(), "{", keyed).header("access-control-allow-origin"), "http://localhost:1");
}

TEST(Access, PathsAndMethods) {
  TestServer server;
  const Reply wrong_method = get(server.port(), "/v1/chat/completions");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.header("allow"), "POST, OPTIONS");
  EXPECT_EQ(wrong_method.at("error.code"), "method_not_allowed");
  EXPECT_EQ(request(server.port(), "POST", "/health", "{}").status, 405);
  EXPECT_EQ(request(server.port(), "DELETE", "/v1/models").status, 405);
  EXPECT_EQ(request(server.port(), "BREW", "/v1/models").status, 400);
  const Reply unknown = get(server.port(), "/v2/x%0a%ff" + std::string(3000, 'y'));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.at("error.code"), "unknown_url");
  EXPECT_LE(unknown.at("error.message")->size(), 250U);
  const Reply completions = request(server.port(), "POST", "/v1/completions", R"({"prompt": [-1]})");
  EXPECT_EQ(completions.status, 404);
  EXPECT_NE(completions.at("error.message")->find("/v1/chat/completions"), std::string::npos);
  EXPECT_EQ(request(server.port(), "HEAD", "/health").status, 200);
  EXPECT_EQ(get(server.port(), "/" + std::string(10'000, 'a')).status, 414);
}

TEST(Access, ModelsTellTheContext) {
  TestServer server(default_script, {}, 777);
  const Reply list = get(server.port(), "/v1/models");
  EXPECT_EQ(list.status, 200);
  EXPECT_EQ(list.at("object"), "list");
  EXPECT_EQ(list.at("data[0].id"), "fake");
  EXPECT_EQ(list.at("data[0].object"), "model");
  EXPECT_EQ(list.at("data[0].owned_by"), "lily");
  EXPECT_EQ(list.at("data[0].max_model_len"), "777");
  EXPECT_EQ(list.at("data[0].meta.n_ctx"), "777");
  EXPECT_GT(std::stoll(list.at("data[0].created").value()), 1'700'000'000);
  EXPECT_EQ(get(server.port(), "/v1/models/fake").at("id"), "fake");
  const Reply unknown = get(server.port(), "/v1/models/other");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.at("error.code"), "model_not_found");
}

TEST(Access, ServedNameCanBeChosen) {
  serve::ServerOptions options;
  options.model_id = "house-model";
  TestServer server(default_script, options);
  EXPECT_EQ(get(server.port(), "/v1/models").at("data[0].id"), "house-model");
  EXPECT_EQ(chat(server.port(), body(R"("model": "house-model")")).at("model"), "house-model");
  const Reply other = chat(server.port(), body(R"("model": "fake")"));
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.at("error.code"), "model_not_found");
  EXPECT_EQ(other.at("error.param"), "model");
}

TEST(Access, WhileLoadingOnlyHealthAnswers) {
  serve::Server server(TestServer::on_free_port({}));
  const Reply health = get(server.port(), "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.at("status"), "loading");
  const Reply reply = chat(server.port(), body());
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.at("error.code"), "loading");
  EXPECT_NE(reply.header("retry-after"), "");
  FakeEngine engine;
  server.attach(engine);
  EXPECT_EQ(get(server.port(), "/health").at("status"), "ok");
  EXPECT_EQ(chat(server.port(), body()).status, 200);
  server.stop();
  server.run();
}

TEST(Access, RequestIdsAreKeptOrMade) {
  TestServer server;
  EXPECT_EQ(get(server.port(), "/v1/models", {{"X-Request-Id", "mine-1"}}).header("x-request-id"), "mine-1");
  EXPECT_EQ(chat(server.port(), body(), {{"X-Request-Id", "mine-2"}}).header("x-request-id"), "mine-2");
  const std::string first = chat(server.port(), body()).header("x-request-id");
  EXPECT_NE(first, "");
  EXPECT_NE(first, chat(server.port(), body()).header("x-request-id"));
}

TEST(Access, OptionsAreChecked) {
  const auto start = [](const std::function<void(serve::ServerOptions&)>& change) {
    serve::ServerOptions options = TestServer::on_free_port({});
    change(options);
    serve::Server server(options);
  };
  EXPECT_THROW(start([](auto& o) { o.host = "no such host"; }), Error);
  EXPECT_THROW(start([](auto& o) { o.port = 70'000; }), Error);
  EXPECT_THROW(start([](auto& o) { o.max_queue = -1; }), Error);
  EXPECT_THROW(start([](auto& o) { o.api_keys = {""}; }), Error);
  EXPECT_THROW(start([](auto& o) { o.keepalive = 0ms; }), Error);
}

}  // namespace
}  // namespace lily::serve_test
