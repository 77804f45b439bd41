// One client's socket with the time and size limits that keep it from hurting others.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <string_view>

#include "serve/http_types.hpp"
#include "serve/stop_event.hpp"

namespace lily::serve {

struct ConnectionLimits {
  std::chrono::milliseconds read_timeout;   // a whole head; between reads of a body, beside kMinBodyRate
  std::chrono::milliseconds write_timeout;  // without a byte taken by the peer
  std::size_t max_head = 64 << 10;          // bytes of a request line with its headers
};

// Used by one thread. Every wait ends early when the server stops.
class Connection : public Peer {
 public:
  Connection(int descriptor, const StopEvent& stop, const ConnectionLimits& limits);
  ~Connection() override;  // closes
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits for the first byte of a request. False: none came in time, the peer closed, or the server stops.
  bool await_request(std::chrono::milliseconds patience);
  // The next bytes belong to a head, or no longer do.
  void begin_head();
  void end_head();

  enum class ReadEnd { none, closed, timed_out, head_too_large, stopped };
  // Bytes read; 0 when nothing more comes, and read_end() says why.
  std::size_t read(char* destination, std::size_t size);
  ReadEnd read_end() const noexcept { return read_end_; }

  // All of `bytes`, or false: the peer is gone, took nothing for the write timeout, or was slow when the
  // server stopped.
  bool write(std::string_view bytes);

  // Lets a peer that is still sending read our reply: closing with unread input would reset the connection
  // and could destroy the reply on its way.
  void drain();

  bool gone() const override;
  bool stopping() const override { return stop_.is_set(); }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Wait { ready, timed_out, stopped };
  Wait wait(short events, Clock::time_point deadline, bool until_stop) const;
  bool fill(Clock::time_point deadline);
  Clock::time_point read_deadline() const;
  Clock::time_point write_deadline();

  const int descriptor_;
  const StopEvent& stop_;
  const ConnectionLimits limits_;
  std::array<char, 16 << 10> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool in_head_ = false;
  std::size_t head_bytes_ = 0;
  Clock::time_point head_deadline_{};
  Clock::time_point body_begin_{};
  std::size_t body_bytes_ = 0;
  Clock::time_point stop_deadline_{};  // of all writes after stop(); unset before
  ReadEnd read_end_ = ReadEnd::none;
};

}  // namespace lily::serve
