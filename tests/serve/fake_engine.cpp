// The scripted engine.
#include "serve/fake_engine.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>

namespace lily::serve_test {
namespace {

int words_of(const ChatPrompt& prompt) {
  int words = 0;
  for (const Message& message : prompt.messages) {
    for (const ContentPart& part : message.content) {
      std::istringstream text(part.text);
      for (std::string word; text >> word;) ++words;
    }
  }
  return words;
}

// Sleeps in slices, as a real engine looks at its stop token between layers. False: stopped.
bool pause(std::chrono::milliseconds time, const std::stop_token& stop) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (stop.stop_requested()) return false;
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(time, std::chrono::milliseconds(2)));
  }
  return !stop.stop_requested();
}

void append(Answer& answer, const Delta& delta) {
  answer.reasoning += delta.reasoning;
  answer.content += delta.content;
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (call.index == answer.tool_calls.size()) answer.tool_calls.push_back({call.id, call.name, ""});
    answer.tool_calls[call.index].arguments += call.arguments;
  }
}

}  // namespace

Delta content(std::string text) { return {.reasoning = {}, .content = std::move(text), .tool_calls = {}}; }
Delta reasoning(std::string text) { return {.reasoning = std::move(text), .content = {}, .tool_calls = {}}; }

Script default_script(const GenerationRequest& request) {
  Script script;
  if (std::get<ChatPrompt>(request.prompt).enable_thinking) script.deltas = {reasoning("hm"), reasoning("m")};
  for (const char* piece : {"Hello", " there", "."}) script.deltas.push_back(content(piece));
  return script;
}

Script endless_script(const GenerationRequest& request, std::chrono::milliseconds per_token) {
  Script script;
  script.deltas.assign(static_cast<std::size_t>(request.max_tokens.value_or(100'000)), content("w "));
  script.per_token = per_token;
  script.finish = FinishReason::length;
  return script;
}

FakeEngine::FakeEngine(Writer writer, int context) : writer_(std::move(writer)) {
  info_.model_id = "fake";
  info_.backend = "script";
  info_.context = context;
  info_.vocabulary_size = 1000;
}

std::vector<TokenId> FakeEngine::check(const GenerationRequest& request) const {
  const auto& prompt = std::get<ChatPrompt>(request.prompt);
  for (std::size_t m = 0; m < prompt.messages.size(); ++m) {
    for (std::size_t c = 0; c < prompt.messages[m].content.size(); ++c) {
      if (prompt.messages[m].content[c].kind == ContentPart::Kind::text) continue;
      throw Error(ErrorKind::unsupported, "images are not supported",
                  fmt::format("messages[{}].content[{}]", m, c));
    }
  }
  if (request.sampling.temperature.value_or(1) > 2) {
    throw Error(ErrorKind::bad_input, "temperature is above 2", "temperature");
  }
  const int words = words_of(prompt);
  if (words >= info_.context) {
    throw Error(ErrorKind::too_long,
                fmt::format("the prompt has {} tokens; the context holds {}", words, info_.context));
  }
  return std::vector<TokenId>(static_cast<std::size_t>(words));
}

GenerationResult FakeEngine::generate(const GenerationRequest& request, const GenerationCallbacks& callbacks,
                                      std::stop_token stop) {
  in_generate_ += 1;
  GenerationResult result;
  result.usage.prompt_tokens = static_cast<int>(check(request).size());
  std::uint64_t ticket = 0;
  bool my_turn = false;
  {
    std::unique_lock lock(mutex_);
    last_request_ = request;
    ticket = next_ticket_++;
    queue_.push_back(ticket);
    my_turn = turn_.wait(lock, stop, [&] { return queue_.front() == ticket; });
  }
  std::exception_ptr failure;
  try {
    result.answer.finish_reason = FinishReason::cancelled;
    if (my_turn) answer(writer_(request), request, callbacks, stop, result);
  } catch (...) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.erase(std::find(queue_.begin(), queue_.end(), ticket));
    turn_.notify_all();
  }
  in_generate_ -= 1;
  runs_ended_ += 1;
  if (failure) std::rethrow_exception(failure);
  return result;
}

void FakeEngine::answer(const Script& script, const GenerationRequest& request,
                        const GenerationCallbacks& callbacks, const std::stop_token& stop,
                        GenerationResult& result) {
  result.effective.temperature = request.sampling.temperature.value_or(0.6F);
  const int prompt = result.usage.prompt_tokens;
  for (int chunk = 1; chunk <= script.chunks; ++chunk) {
    if (!pause(script.per_chunk, stop)) return;
    if (callbacks.prefill) callbacks.prefill(prompt * chunk / script.chunks, prompt);
  }
  result.answer.finish_reason = script.finish;
  for (std::size_t i = 0; i < script.deltas.size(); ++i) {
    if (script.fails_at == i) throw script.failure;
    if (request.max_tokens && result.usage.completion_tokens == *request.max_tokens) {
      result.answer.finish_reason = FinishReason::length;
      return;
    }
    if (!pause(script.per_token, stop)) {
      result.answer.finish_reason = FinishReason::cancelled;
      return;
    }
    tokens_made_ += 1;
    result.usage.completion_tokens += 1;
    if (!script.deltas[i].reasoning.empty()) result.usage.reasoning_tokens += 1;
    append(result.answer, script.deltas[i]);
    if (callbacks.delta) callbacks.delta(script.deltas[i]);
  }
}

GenerationRequest FakeEngine::last_request() const {
  const std::lock_guard lock(mutex_);
  return last_request_;
}

}  // namespace lily::serve_test
