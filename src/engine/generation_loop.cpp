// Runs one prepared request.
#include "engine/generation_loop.hpp"

#include <algorithm>

#include "engine/answer_stream.hpp"
#include "engine/token_source.hpp"
#include "lily/error.hpp"

namespace lily::engine {
namespace {

using Clock = std::chrono::steady_clock;

// False when the request was stopped before the prompt was read.
bool read_prompt(const GenerationModel& model, backend::Sequence& sequence, std::span<float> logits,
                 std::span<const TokenId> prompt, const GenerationCallbacks& callbacks,
                 const std::stop_token& stop) {
  try {
    model.backend.prefill(sequence, prompt, logits, {.stop = stop, .progress = callbacks.prefill});
    return true;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) return false;
    throw;
  }
}

}  // namespace

GenerationResult generate_answer(const GenerationModel& model, backend::Sequence& sequence,
                                 std::span<float> logits, PreparedRequest request,
                                 const GenerationCallbacks& callbacks, const std::stop_token& stop) {
  const auto is_control = [&](TokenId id) { return model.tokenizer.is_control(id); };
  const auto ends_answer = [&](TokenId id) {
    return std::find(model.stop_ids.begin(), model.stop_ids.end(), id) != model.stop_ids.end();
  };
  // Ignored stop tokens are never sampled rather than skipped, so none of them enters the model's input.
  const TokenRanges allowed = request.ignore_eos ? model.allowed.without(model.stop_ids) : model.allowed;
  AnswerStream stream(model.tokenizer, std::move(request.parser));
  const auto deliver = [&](const Delta& delta) {
    if (callbacks.delta && !delta.empty()) callbacks.delta(delta);
  };

  GenerationResult result;
  result.effective = request.sampling.as_options();
  result.usage.prompt_tokens = static_cast<int>(request.prompt.size());
  const auto start = Clock::now();
  bool cancelled = !read_prompt(model, sequence, logits, request.prompt, callbacks, stop);
  const auto prompt_read = Clock::now();
  std::unique_ptr<backend::TokenStream> tokens;
  if (!cancelled) {
    tokens = open_tokens(model.backend, sequence, logits,
                         {request.sampling, allowed, request.prompt, is_control}, request.max_new_tokens);
  }
  bool by_length = false;
  while (!cancelled) {
    if (stop.stop_requested()) {
      cancelled = true;
      break;
    }
    const TokenId id = tokens->next();
    if (ends_answer(id)) break;
    result.ids.push_back(id);
    deliver(stream.push(id));
    if (stream.stopped()) break;
    by_length = static_cast<int>(result.ids.size()) == request.max_new_tokens;
    if (by_length) break;
  }
  deliver(stream.finish(by_length || cancelled));  // either way an unfinished call is cut off
  const auto end = Clock::now();

  result.answer = stream.answer();
  if (cancelled) result.answer.finish_reason = FinishReason::cancelled;
  result.usage.completion_tokens = static_cast<int>(result.ids.size());
  result.usage.reasoning_tokens = stream.reasoning_tokens();
  result.timing.prefill = prompt_read - start;
  result.timing.decode = end - prompt_read;
  return result;
}

}  // namespace lily::engine
