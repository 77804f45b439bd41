// Cross-origin rules for web pages that call the server from a browser.
#pragma once

#include <string>
#include <string_view>

#include "serve/http_types.hpp"

namespace lily::serve {

// What every reply to `request` carries, errors and streams included. Empty when its origin is not allowed;
// `allowed` as ServerOptions::cors_origin.
HttpHeaders cors_headers(std::string_view allowed, const HttpRequest& request);

// The reply to OPTIONS, which browsers send without credentials.
HttpReply preflight_reply(const HttpRequest& request);

}  // namespace lily::serve
