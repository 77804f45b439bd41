// Cross-origin rules: who may call, and the preflight reply.
#include "serve/cors.hpp"

#include <algorithm>

namespace lily::serve {
namespace {

// A page served from this machine, on any port.
bool is_local(std::string_view origin) {
  const std::size_t scheme = origin.find("://");
  if (scheme == std::string_view::npos) return false;
  std::string_view host = origin.substr(scheme + 3);
  const std::size_t port = host.rfind(':');
  if (port != std::string_view::npos &&
      host.find_first_not_of("0123456789", port + 1) == std::string_view::npos) {
    host = host.substr(0, port);
  }
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

// Values that we send back must not be able to hold a line break.
bool is_header_list(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  });
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7F; });
}

bool origin_allowed(std::string_view allowed, std::string_view origin) {
  if (origin.empty() || !is_printable(origin)) return false;
  if (allowed == "*") return true;
  return allowed.empty() ? is_local(origin) : origin == allowed;
}

}  // namespace

bool is_foreign(std::string_view allowed, const HttpRequest& request) {
  const std::string_view origin = request.header("Origin");
  return !origin.empty() && !origin_allowed(allowed, origin);
}

HttpHeaders cors_headers(std::string_view allowed, const HttpRequest& request) {
  const std::string_view origin = request.header("Origin");
  if (!origin_allowed(allowed, origin)) return {};
  return {{"Access-Control-Allow-Origin", allowed == "*" ? "*" : std::string(origin)},
          {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After"},
          {"Vary", "Origin"}};
}

HttpReply preflight_reply(const HttpRequest& request) {
  HttpReply reply;
  reply.status = 204;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST, OPTIONS");
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
  const std::string_view asked = request.header("Access-Control-Request-Headers");
  const bool echo = !asked.empty() && is_header_list(asked);
  reply.headers.emplace_back("Access-Control-Allow-Headers",
                             echo ? std::string(asked) : "Authorization, Content-Type, X-Api-Key");
  return reply;
}

}  // namespace lily::serve
