// The reference backend, broken on purpose: faults that leave every number finite and the text plausible.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "checkpoint/checkpoint.hpp"

namespace lily::testing {

enum class Fault {
  none,
  window_lost,            // the convolution windows are empty whenever a token is decoded
  memory_lost,            // so are the DeltaNet states
  keys_lost,              // so are the cached keys
  snapshot_without_keys,  // the prompt is read in two halves, and the cached keys are lost between them
  experts_swapped         // in every layer the router takes neighbouring experts for each other
};

std::string to_string(Fault fault);

// Reads lily-mini.
std::unique_ptr<backend::Backend> open_faulty_backend(Fault fault, int threads);

}  // namespace lily::testing
