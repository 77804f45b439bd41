// SIGINT and SIGTERM for `lily serve`: the first stops the server gracefully, the second ends the process.
#pragma once

#include <thread>

#include "serve/server.hpp"

namespace lily::serve {

// At most one at a time; restores the former handlers when destroyed. What keeps it from being destroyed
// within 2.5 seconds of the first signal is abandoned: the process ends with exit code 0. While no engine is
// attached nothing is in flight and loading cannot be interrupted, so the first signal ends the process too
// (exit code 128 + signal).
class StopSignals {
 public:
  explicit StopSignals(Server& server);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  std::thread watcher_;
};

}  // namespace lily::serve
