// A child process.
#include "serve/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "serve/resident_memory.hpp"

namespace lily::serve_test {

using Clock = std::chrono::steady_clock;

Process::Process(const std::vector<std::string>& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe for a child process");
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  id_ = fork();
  if (id_ == 0) {
    dup2(ends[1], STDERR_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  error_pipe_ = ends[0];
}

Process::~Process() {
  if (!wait(std::chrono::milliseconds(0))) {
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  close(error_pipe_);
}

bool Process::read_some(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd set = {error_pipe_, POLLIN, 0};
  if (left <= 0 || poll(&set, 1, static_cast<int>(left)) <= 0) return false;
  char buffer[4096];
  const auto count = read(error_pipe_, buffer, sizeof(buffer));
  if (count <= 0) return false;
  error_text_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

bool Process::wait_for_error_text(const std::string& text, std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (error_text_.find(text) == std::string::npos) {
    if (!read_some(deadline)) return false;
  }
  return true;
}

std::optional<int> Process::wait(std::chrono::milliseconds patience) {
  const auto deadline = Clock::now() + patience;
  while (!exit_code_) {
    int status = 0;
    if (waitpid(id_, &status, WNOHANG) == id_) {
      exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
      while (read_some(Clock::now() + std::chrono::milliseconds(100))) {
      }
    } else if (Clock::now() >= deadline) {
      return std::nullopt;
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return exit_code_;
}

void Process::signal(int number) const { kill(id_, number); }

long Process::resident_mib() const { return serve_test::resident_mib(id_); }

}  // namespace lily::serve_test
