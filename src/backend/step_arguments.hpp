// What every backend asks of the arguments of prefill and decode.
#pragma once

#include <span>

#include "backend/backend.hpp"

namespace lily::backend {

// Throws Error: bad_input for an id outside [0, vocabulary); internal for no token or another number of
// logits than `vocabulary`; too_long when the tokens do not fit the sequence.
void check_step(const Sequence& sequence, std::span<const TokenId> tokens, std::span<const float> logits,
                int vocabulary);

}  // namespace lily::backend
