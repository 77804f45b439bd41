// SIGINT and SIGTERM: a handler that only writes to a pipe, and a thread that does the rest.
#include "serve/signals.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "serve/log.hpp"

namespace lily::serve {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

// The contract is an end within three seconds. What still runs then, such as the encoding of a prompt of 60
// MB (12 s), has no client left and nothing to save.
constexpr int kPatienceMilliseconds = 2500;

// A handler can reach only globals, and only lock-free ones.
std::atomic<int> pipe_end{-1};
std::atomic<bool> stopping{false};
struct sigaction former[2];

extern "C" void on_stop_signal(int signal) {
  if (stopping.exchange(true)) _exit(128 + signal);
  const char number = static_cast<char>(signal);
  // Nothing useful can be done if this fails; a second signal still ends the process.
  [[maybe_unused]] const auto written = write(pipe_end.load(), &number, 1);
}

void wait_for_signal(int descriptor, Server& server) {
  char number = 0;
  ssize_t count = 0;
  do {
    count = read(descriptor, &number, 1);
  } while (count < 0 && errno == EINTR);
  if (count == 1) {
    if (!server.attached()) _exit(128 + number);
    log_information("stopping; a second signal ends the process at once");
    server.stop();
    pollfd destroyed = {descriptor, POLLIN, 0};
    int ready = 0;
    do {
      ready = poll(&destroyed, 1, kPatienceMilliseconds);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0) {
      log_warning("not all work could be stopped in time; ending without it");
      _exit(0);
    }
  }
  close(descriptor);  // StopSignals was destroyed
}

}  // namespace

StopSignals::StopSignals(Server& server) {
  int ends[2];
  if (pipe(ends) != 0) throw Error(ErrorKind::device, "no file descriptors left to watch for signals");
  for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
  stopping = false;
  pipe_end = ends[1];
  struct sigaction action = {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &former[i]);
  watcher_ = std::thread([descriptor = ends[0], &server] { wait_for_signal(descriptor, server); });
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < 2; ++i) sigaction(kSignals[i], &former[i], nullptr);
  close(pipe_end.exchange(-1));
  watcher_.join();
}

}  // namespace lily::serve
