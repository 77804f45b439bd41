// The listening socket.
#pragma once

#include <string>

namespace lily::serve {

struct Listener {
  int descriptor = -1;  // owned by the caller
  int port = 0;         // the one in use when 0 was asked for
};

// Binds and listens at once, so that a second server on the same address fails before it loads anything.
// Throws Error: bad_input (port out of range, host unknown), device (in use, not permitted).
Listener listen_on(const std::string& host, int port);

}  // namespace lily::serve
