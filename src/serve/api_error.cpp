// Which error becomes which status, type and code.
#include "serve/api_error.hpp"

#include <fmt/core.h>

#include "serve/echo.hpp"
#include "serve/log.hpp"

namespace lily::serve {
namespace {

ApiError from_kind(const Error& error) {
  const std::string message = shortened(error.what(), kMaxEcho);
  const std::string param = shortened(error.param(), kMaxEcho);
  switch (error.kind()) {
    case ErrorKind::bad_input:
      return invalid_request(message, param, "invalid_value");
    case ErrorKind::unsupported:
      return invalid_request(message, param, "unsupported_value");
    case ErrorKind::too_long:
      return invalid_request(message, param.empty() ? "messages" : param, "context_length_exceeded");
    case ErrorKind::not_found: {
      ApiError reply = invalid_request(message, param, param == "model" ? "model_not_found" : "not_found");
      reply.status = 404;
      return reply;
    }
    case ErrorKind::overloaded:
      return server_error(503, message, "overloaded");
    case ErrorKind::out_of_memory:
      return server_error(500, message, "out_of_memory");
    case ErrorKind::cancelled:
      return server_error(503, message, "cancelled");
    case ErrorKind::device:
      return server_error(500, message, "device_error");
    case ErrorKind::internal:
      return server_error(500, message, "internal_error");
  }
  return server_error(500, message, "internal_error");
}

}  // namespace

ApiError invalid_request(std::string message, std::string param, std::string code) {
  return {400, std::move(message), "invalid_request_error", std::move(param), std::move(code)};
}

ApiError server_error(int status, std::string message, std::string code) {
  return {status, std::move(message), "server_error", {}, std::move(code)};
}

ApiError to_api_error(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) {
    ApiError reply = from_kind(*known);
    // Faults of ours say nothing of a prompt and are wanted in the log; those of a caller may repeat theirs.
    if (reply.status >= 500) log_error(known->what());
    return reply;
  }
  log_error(fmt::format("unexpected failure: {}", error.what()));
  return server_error(500, "the server failed to answer this request", "internal_error");
}

Json to_json(const ApiError& error) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json() : Json::string(text);
  };
  return Json::object({{"error", Json::object({{"message", Json::string(error.message)},
                                               {"type", Json::string(error.type)},
                                               {"param", text_or_null(error.param)},
                                               {"code", text_or_null(error.code)}})}});
}

HttpReply to_reply(const ApiError& error) {
  HttpReply reply;
  reply.status = error.status;
  reply.body = to_json(error).dump();
  if (error.status == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

}  // namespace lily::serve
