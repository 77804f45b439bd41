// Cross-origin rules for web pages that call the server from a browser.
#pragma once

#include <string>
#include <string_view>

#include "serve/http_types.hpp"

namespace lily::serve {

// Whether a web page asks whose origin is not allowed; `allowed` as ServerOptions::cors_origin. Browsers send
// the origin with every POST, also to a name that the page's owner has pointed at this machine.
bool is_foreign(std::string_view allowed, const HttpRequest& request);

// What every reply to `request` carries, errors and streams included. Empty when its origin is not allowed.
HttpHeaders cors_headers(std::string_view allowed, const HttpRequest& request);

// The reply to OPTIONS, which browsers send without credentials.
HttpReply preflight_reply(const HttpRequest& request);

}  // namespace lily::serve
