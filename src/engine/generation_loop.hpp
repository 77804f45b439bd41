// Runs one prepared request on a fresh sequence: prefill, then token after token until a reason to end.
#pragma once

#include <span>
#include <stop_token>

#include "backend/backend.hpp"
#include "engine/prepare_request.hpp"
#include "engine/token_ranges.hpp"
#include "lily/generation.hpp"
#include "text/tokenizer.hpp"

namespace lily::engine {

// What all requests of an engine share.
struct GenerationModel {
  backend::Backend& backend;
  const text::Tokenizer& tokenizer;
  const TokenRanges& allowed;         // ids that have a token
  std::span<const TokenId> stop_ids;  // end an answer; never part of it
};

// `logits` is scratch for one row. Fills everything of the result but the time in the queue. A stop request
// ends the answer as cancelled; the sequence may then be poisoned. Throws Error(internal) for non-finite
// logits, and what the backend and the callbacks throw.
GenerationResult generate_answer(const GenerationModel& model, backend::Sequence& sequence,
                                 std::span<float> logits, PreparedRequest request,
                                 const GenerationCallbacks& callbacks, const std::stop_token& stop);

}  // namespace lily::engine
