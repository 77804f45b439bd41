// Routing, authentication, the small endpoints, and the way of a chat request from body to reply.
#include "serve/api.hpp"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "serve/api_error.hpp"
#include "serve/api_keys.hpp"
#include "serve/chat_reply.hpp"
#include "serve/chat_request.hpp"
#include "serve/cors.hpp"
#include "serve/echo.hpp"
#include "serve/request_log.hpp"

namespace lily::serve {
namespace {

constexpr std::string_view kHealth = "/health";
constexpr std::string_view kModels = "/v1/models";
constexpr std::string_view kChat = "/v1/chat/completions";

// Endpoints that clients of OpenAI's interface may look for, so that the 404 can say what to use instead.
constexpr std::string_view kCompletions = "/v1/completions";

std::string_view model_of_path(std::string_view path) {
  const bool nested = path.size() > kModels.size() + 1 && path.substr(0, kModels.size()) == kModels &&
                      path[kModels.size()] == '/';
  return nested ? path.substr(kModels.size() + 1) : std::string_view();
}

// The method a path is asked with, or "" for a path that does not exist.
std::string_view method_of(std::string_view path) {
  if (path == kChat) return "POST";
  if (path == kHealth || path == kModels || !model_of_path(path).empty()) return "GET";
  return {};
}

ApiError with_status(int status, ApiError error) {
  error.status = status;
  return error;
}

ApiError unknown_path(const HttpRequest& request) {
  const std::string hint = request.path == kCompletions ? fmt::format("; this server offers {}", kChat) : "";
  return with_status(404, invalid_request(fmt::format("there is no {} {}{}", printable(request.method, 16),
                                                      printable(request.path, 100), hint),
                                          {}, "unknown_url"));
}

ApiError loading_error() { return server_error(503, "the model is loading; try again soon", "loading"); }

// A client's own request id is kept when it can stand in a header and a log line.
std::string request_id_of(const HttpRequest& request) {
  const std::string_view offered = request.header("X-Request-Id");
  const bool usable =
      !offered.empty() && offered.size() <= 128 &&
      std::all_of(offered.begin(), offered.end(), [](unsigned char c) { return c > 0x20 && c < 0x7F; });
  return usable ? std::string(offered) : new_reply_id("req");
}

bool has_header(const HttpReply& reply, std::string_view name) {
  return std::any_of(reply.headers.begin(), reply.headers.end(),
                     [&](const auto& h) { return h.first == name; });
}

}  // namespace

Api::Api(const ServerOptions& options)
    : options_(options),
      started_(unix_seconds()),
      admission_(options.max_queue + 1),
      model_id_(options.model_id) {}

void Api::attach(Engine& engine) {
  if (model_id_.empty()) model_id_ = engine.info().model_id;
  engine_.store(&engine, std::memory_order_release);
}

std::optional<HttpReply> Api::admit(const HttpRequest& request) {
  if (request.method == "OPTIONS") return finish(request, preflight_reply(request));
  if (request.path != kHealth && !options_.api_keys.empty() &&
      !authorized(options_.api_keys, request.header("Authorization"), request.header("X-Api-Key"))) {
    return refusal(
        request, with_status(401, invalid_request("a valid API key is needed: Authorization: Bearer KEY", {},
                                                  "invalid_api_key")));
  }
  // The browser keeps a foreign page from reading replies, not from making the model work.
  if (request.path != kHealth && options_.api_keys.empty() && is_foreign(options_.cors_origin, request)) {
    return refusal(
        request,
        with_status(403, invalid_request(fmt::format("pages of {} may not call this server; --cors-origin "
                                                     "allows an origin, and so does a key of --api-key-file",
                                                     printable(request.header("Origin"), 100)),
                                         {}, "origin_not_allowed")));
  }
  const std::string_view method = method_of(request.path);
  if (method.empty()) return refusal(request, unknown_path(request));
  if (request.method != method && !(request.method == "HEAD" && method == "GET")) {
    HttpReply reply = to_reply(
        with_status(405, invalid_request(fmt::format("{} takes {}, not {}", printable(request.path, 100),
                                                     method, printable(request.method, 16)),
                                         {}, "method_not_allowed")));
    reply.headers.emplace_back("Allow", fmt::format("{}, OPTIONS", method));
    return finish(request, std::move(reply));
  }
  if (!attached() && request.path != kHealth) return refusal(request, loading_error());
  return std::nullopt;
}

HttpReply Api::handle(HttpRequest request, const Peer& peer) {
  if (request.path == kHealth) return finish(request, health(peer));
  if (request.path == kModels) return finish(request, models());
  if (request.path == kChat) {
    const std::string id = request_id_of(request);
    HttpHeaders headers = cors_headers(options_.cors_origin, request);
    headers.emplace_back("X-Request-Id", id);
    HttpReply reply = chat(std::move(request), peer, id);
    reply.headers.insert(reply.headers.end(), headers.begin(), headers.end());
    return reply;
  }
  return finish(request, model(model_of_path(request.path)));
}

HttpReply Api::refuse(const HttpRequest& request, int status, std::string_view reason) {
  if (status < 500) return refusal(request, with_status(status, invalid_request(std::string(reason))));
  return refusal(request,
                 server_error(status, std::string(reason), status == 503 ? "overloaded" : "internal_error"));
}

HttpReply Api::health(const Peer& peer) const {
  HttpReply reply;
  const char* status = peer.stopping() ? "stopping" : attached() ? "ok" : "loading";
  if (peer.stopping() || !attached()) reply.status = 503;
  Json body = Json::object({{"status", Json::string(status)}});
  if (attached()) body.set("model", Json::string(model_id_));
  // Generations running or waiting, and how many there may be.
  body.set("active", Json::integer(admission_.active()));
  body.set("limit", Json::integer(admission_.limit()));
  reply.body = body.dump();
  return reply;
}

Json Api::model_card() const {
  const EngineInfo& info = engine_.load(std::memory_order_acquire)->info();
  // The context's length under the names that clients read.
  return Json::object({{"id", Json::string(model_id_)},
                       {"object", Json::string("model")},
                       {"created", Json::integer(started_)},
                       {"owned_by", Json::string("lily")},
                       {"max_model_len", Json::integer(info.context)},
                       {"meta", Json::object({{"n_ctx", Json::integer(info.context)},
                                              {"n_vocab", Json::integer(info.vocabulary_size)}})}});
}

HttpReply Api::models() const {
  HttpReply reply;
  reply.body = Json::object({{"object", Json::string("list")}, {"data", Json::array({model_card()})}}).dump();
  return reply;
}

HttpReply Api::model(std::string_view id) const {
  if (id != model_id_) {
    return to_reply(
        with_status(404, invalid_request(fmt::format("the model \"{}\" does not exist; served here: \"{}\"",
                                                     printable(id, 60), model_id_),
                                         "model", "model_not_found")));
  }
  HttpReply reply;
  reply.body = model_card().dump();
  return reply;
}

HttpReply Api::chat(HttpRequest request, const Peer& peer, const std::string& request_id) {
  RequestRecord record{request_id, "POST", kChat, 0, false, {}, {}};
  const auto fail = [&record](const ApiError& error) {
    record.status = error.status;
    record.outcome = error.code;
    record.param = error.param;
    log_request(record, nullptr);
    return to_reply(error);
  };
  try {
    Engine& engine = *engine_.load(std::memory_order_acquire);
    ChatRequest chat = parse_chat_request(request.body, model_id_);
    // Up to max_body bytes that nobody needs while the request waits; assigning would keep them.
    std::string().swap(request.body);
    record.stream = chat.stream;
    Admission::Ticket ticket = admission_.enter();
    if (!ticket) {
      return fail(server_error(
          503, fmt::format("{} requests are running or waiting, the limit; try again", admission_.limit()),
          "overloaded"));
    }
    // Whatever can be wrong is found here, while a stream can still begin with a status other than 200.
    engine.check(chat.generation);
    const ChatReply::Options options{chat.include_usage, options_.echo_sampling, options_.keepalive};
    auto answer = std::make_shared<ChatReply>(
        std::make_unique<GenerationJob>(engine, std::move(chat.generation)), std::move(ticket),
        ReplyIdentity{new_reply_id("chatcmpl"), model_id_, unix_seconds()}, record, peer, options);
    if (!chat.stream) return answer->buffered();
    HttpReply reply;
    reply.content_type = "text/event-stream";
    reply.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    reply.stream = [answer](ByteSink& sink) { answer->stream(sink); };
    return reply;
  } catch (const std::exception& thrown) {
    return fail(to_api_error(thrown));
  }
}

HttpReply Api::finish(const HttpRequest& request, HttpReply reply) const {
  const std::string id = request_id_of(request);
  if (reply.status >= 400) {
    log_request({id, request.method, request.path, reply.status, false, {}, {}}, nullptr);
  }
  for (auto& header : cors_headers(options_.cors_origin, request)) reply.headers.push_back(std::move(header));
  if (!has_header(reply, "X-Request-Id")) reply.headers.emplace_back("X-Request-Id", id);
  return reply;
}

HttpReply Api::refusal(const HttpRequest& request, const ApiError& error) const {
  return finish(request, to_reply(error));
}

}  // namespace lily::serve
