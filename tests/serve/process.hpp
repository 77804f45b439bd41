// A child process with its standard error captured.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lily::serve_test {

class Process {
 public:
  explicit Process(const std::vector<std::string>& command);
  ~Process();  // kills it if it still runs
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits until standard error holds `text`. False: the output ended or time is up.
  bool wait_for_error_text(const std::string& text, std::chrono::milliseconds patience);
  // The exit code, 128 + N after signal N; nothing when it still runs after `patience`.
  std::optional<int> wait(std::chrono::milliseconds patience);
  void signal(int number) const;
  long resident_mib() const;  // of a process that runs

  const std::string& error_text() const { return error_text_; }

 private:
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t id_ = -1;
  int error_pipe_ = -1;
  std::string error_text_;
  std::optional<int> exit_code_;
};

}  // namespace lily::serve_test
