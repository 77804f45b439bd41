// One client's socket: buffered reads, whole writes, and a look at whether the peer is still there.
#include "serve/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace lily::serve {
namespace {

using namespace std::chrono_literals;

// After stop() a stream may still say why it ends, but a reader that does not listen or takes its time over
// what it has not read yet must not hold up the end: this is for all writes together.
constexpr auto kWriteTimeWhenStopping = 500ms;

// A body that comes slower on average gives up its connection's thread. Far below any real link, and far
// above a byte now and then, which would hold all threads for ever.
constexpr std::size_t kMinBodyRate = 1 << 10;  // bytes per second
constexpr auto kDrainTime = 2s;

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
#else
constexpr int kSendFlags = MSG_DONTWAIT;
#endif

#ifdef POLLRDHUP
constexpr short kPeerClosed = POLLRDHUP;
#else
constexpr short kPeerClosed = 0;
#endif

}  // namespace

Connection::Connection(int descriptor, const StopEvent& stop, const ConnectionLimits& limits)
    : descriptor_(descriptor), stop_(stop), limits_(limits) {
  const int yes = 1;
  setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes,
             sizeof(yes));  // tokens are small and wanted at once
#ifdef SO_NOSIGPIPE
  setsockopt(descriptor_, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof(yes));
#endif
}

Connection::~Connection() { close(descriptor_); }

Connection::Wait Connection::wait(short events, Clock::time_point deadline, bool until_stop) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Wait::timed_out;
    pollfd sets[2] = {{descriptor_, events, 0}, {stop_.descriptor(), POLLIN, 0}};
    const int ready = poll(sets, until_stop ? 2 : 1, static_cast<int>(std::min<long long>(left, 60'000)));
    if (ready < 0 && errno != EINTR) return Wait::timed_out;
    if (ready <= 0) continue;
    if (sets[0].revents != 0) return Wait::ready;
    return Wait::stopped;
  }
}

bool Connection::fill(Clock::time_point deadline) {
  for (;;) {
    const Wait outcome = wait(POLLIN, deadline, true);
    if (outcome != Wait::ready) {
      read_end_ = outcome == Wait::stopped ? ReadEnd::stopped : ReadEnd::timed_out;
      return false;
    }
    const auto count = recv(descriptor_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) continue;
    if (count <= 0) {
      read_end_ = ReadEnd::closed;
      return false;
    }
    begin_ = 0;
    end_ = static_cast<std::size_t>(count);
    return true;
  }
}

bool Connection::await_request(std::chrono::milliseconds patience) {
  if (stop_.is_set()) return false;
  return begin_ < end_ || fill(Clock::now() + patience);
}

void Connection::begin_head() {
  in_head_ = true;
  head_bytes_ = 0;
  head_deadline_ = Clock::now() + limits_.read_timeout;
}

void Connection::end_head() {
  in_head_ = false;
  body_begin_ = Clock::now();
  body_bytes_ = 0;
}

Connection::Clock::time_point Connection::read_deadline() const {
  if (in_head_) return head_deadline_;
  const std::chrono::milliseconds earned(body_bytes_ * 1000 / kMinBodyRate);
  return std::min(Clock::now(), body_begin_ + earned) + limits_.read_timeout;
}

std::size_t Connection::read(char* destination, std::size_t size) {
  if (read_end_ != ReadEnd::none) return 0;
  if (begin_ == end_ && !fill(read_deadline())) return 0;
  const std::size_t count = std::min(size, end_ - begin_);
  if (in_head_ && (head_bytes_ += count) > limits_.max_head) {
    read_end_ = ReadEnd::head_too_large;
    return 0;
  }
  std::memcpy(destination, buffer_.data() + begin_, count);
  if (!in_head_) body_bytes_ += count;
  begin_ += count;
  return count;
}

Connection::Clock::time_point Connection::write_deadline() {
  const auto now = Clock::now();
  if (!stop_.is_set()) return now + limits_.write_timeout;
  if (stop_deadline_ == Clock::time_point{}) stop_deadline_ = now + kWriteTimeWhenStopping;
  return stop_deadline_;
}

bool Connection::write(std::string_view bytes) {
  auto deadline = write_deadline();
  while (!bytes.empty()) {
    const auto count = send(descriptor_, bytes.data(), bytes.size(), kSendFlags);
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      deadline = write_deadline();
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      const bool was_stopping = stop_.is_set();
      const Wait outcome = wait(POLLOUT, deadline, !was_stopping);
      if (outcome == Wait::timed_out) return false;
      if (outcome == Wait::stopped) deadline = std::min(deadline, write_deadline());
    } else {
      return false;
    }
  }
  return true;
}

void Connection::drain() {
  shutdown(descriptor_, SHUT_WR);
  const auto deadline = Clock::now() + kDrainTime;
  while (fill(deadline)) {
  }
}

bool Connection::gone() const {
  pollfd set = {descriptor_, static_cast<short>(POLLIN | kPeerClosed), 0};
  if (poll(&set, 1, 0) <= 0) return false;
  if ((set.revents & (POLLERR | POLLHUP | POLLNVAL | kPeerClosed)) != 0) return true;
  // Where poll() cannot tell an end of input from input, looking at the next byte can.
  char byte = 0;
  return recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace lily::serve
