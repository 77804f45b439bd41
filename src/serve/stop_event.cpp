// A flag that is set once: a pipe whose writing end is closed by set(), so that poll() sees it for ever
// after.
#include "serve/stop_event.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "lily/error.hpp"

namespace lily::serve {

StopEvent::StopEvent() {
  if (pipe(pipe_) != 0)
    throw Error(ErrorKind::device, "no file descriptors left for the server's stop event");
  for (const int descriptor : pipe_) fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

StopEvent::~StopEvent() {
  set();
  close(pipe_[0]);
}

void StopEvent::set() noexcept {
  if (!set_.exchange(true, std::memory_order_acq_rel)) close(pipe_[1]);
}

void StopEvent::wait() const noexcept {
  pollfd set = {pipe_[0], POLLIN, 0};
  while (!is_set()) poll(&set, 1, -1);
}

}  // namespace lily::serve
