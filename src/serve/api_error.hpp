// Errors in the OpenAI wire shape: {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <exception>
#include <string>

#include "lily/error.hpp"
#include "lily/json.hpp"
#include "serve/http_types.hpp"

namespace lily::serve {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type;   // invalid_request_error, server_error
  std::string param;  // "" is sent as null
  std::string code;   // "" is sent as null
};

ApiError invalid_request(std::string message, std::string param = {}, std::string code = {});
ApiError server_error(int status, std::string message, std::string code);

// The reply to a thrown error. What is not a lily::Error is logged and answered without its text.
ApiError to_api_error(const std::exception& error);

Json to_json(const ApiError& error);  // {"error": {...}}

// With Retry-After (503) or WWW-Authenticate (401) where the status asks for it.
HttpReply to_reply(const ApiError& error);

}  // namespace lily::serve
