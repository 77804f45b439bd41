// Runs the "input" of a recorded HTTP case against a server and keeps what came back.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "lily/json.hpp"
#include "serve/http_client.hpp"

namespace lily::serve_test {

struct StepResult {
  Json body;  // that was sent, when it was JSON
  Reply reply;
  bool aborted = false;
  std::chrono::milliseconds until_head{0};
  std::chrono::milliseconds longest_silence{0};
};

struct CaseResult {
  std::vector<StepResult> steps;
  std::vector<StepResult> concurrent;
  std::optional<std::chrono::milliseconds> idle_after;  // from the last abort to "active": 0 in /health
  int health = 0;                                       // status of GET /health afterwards
  long resident_growth_mib = 0;
};

// `input` is a case's "input" object; the server must be ready. Fails the running test for what it cannot do.
CaseResult run_case(const Json& input, int port);

}  // namespace lily::serve_test
