// The listening socket: resolve, bind, listen, and say precisely what went wrong.
#include "serve/listener.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "lily/error.hpp"

namespace lily::serve {
namespace {

// Enough for every client of a full queue to connect in the same instant.
constexpr int kBacklog = 256;

// Replies are streamed in small pieces; a small send buffer makes a reader that stalls visible early and
// bounds the memory the kernel holds for it.
constexpr int kSendBuffer = 128 << 10;

int local_port(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

}  // namespace

Listener listen_on(const std::string& host, int port) {
  if (port < 0 || port > 65535) {
    throw Error(ErrorKind::bad_input, fmt::format("port {} is not between 0 and 65535", port), "port");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      status != 0) {
    throw Error(ErrorKind::bad_input, fmt::format("host \"{}\": {}", host, gai_strerror(status)), "host");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);

  // Only the first address: trying the next one after a failure would let two servers of one name run side by
  // side, one on ::1 and one on 127.0.0.1.
  const addrinfo& address = *addresses;
  const int descriptor = socket(address.ai_family, address.ai_socktype, address.ai_protocol);
  const int yes = 1;
  // SO_REUSEADDR lets a restart ignore connections of the former process that still linger; unlike
  // SO_REUSEPORT it never lets two living servers share the port.
  const bool listening =
      descriptor >= 0 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 &&
      setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
      setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof(kSendBuffer)) == 0 &&
      bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 && listen(descriptor, kBacklog) == 0;
  if (!listening) {
    const int reason = errno;
    if (descriptor >= 0) close(descriptor);
    const std::string what = reason == EADDRINUSE
                                 ? "the address is already in use; stop the other server or choose "
                                   "another port"
                                 : std::generic_category().message(reason);
    throw Error(ErrorKind::device, fmt::format("cannot listen on {}:{}: {}", host, port, what));
  }
  return {descriptor, local_port(descriptor)};
}

}  // namespace lily::serve
