// The one error type of Lily: a kind that callers can act on and a message for people.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace lily {

// What went wrong, in the terms a caller can act on. The server maps each kind to an HTTP status.
enum class ErrorKind {
  bad_input,      // the caller's data is wrong: request, file, flag (400)
  not_found,      // a named thing does not exist (404)
  unsupported,    // valid, but not offered by this build or model (400)
  too_long,       // the request does not fit the context (400)
  overloaded,     // the queue is full (503)
  out_of_memory,  // the planned memory does not fit (500, or refusal at start)
  cancelled,      // the caller asked to stop (no reply)
  device,         // the machine failed: I/O, GPU (500)
  internal,       // a fault of ours, such as non-finite logits (500)
};

// Thrown by library code only; `main` and the server turn it into exit codes and replies.
// `what()` names the thing, the value found and the value or limit needed.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}

  // `param` is the path of the offending request field, such as "messages[0].role".
  Error(ErrorKind kind, const std::string& message, std::string param)
      : std::runtime_error(message), kind_(kind), param_(std::move(param)) {}

  ErrorKind kind() const noexcept { return kind_; }
  const std::string& param() const noexcept { return param_; }

 private:
  ErrorKind kind_;
  std::string param_;
};

}  // namespace lily
