// The real engine as a case asks for it: with a context, with delays, with a fault at a token.
#pragma once

#include <memory>

#include "lily/engine.hpp"
#include "lily/json.hpp"

namespace lily::serve_test {

// `server` is a case's "server" object. Opens the tiny checkpoint (random weights).
std::unique_ptr<Engine> open_case_engine(const Json& server);

}  // namespace lily::serve_test
