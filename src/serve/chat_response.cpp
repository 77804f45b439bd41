// Shapes answers for the wire.
#include "serve/chat_response.hpp"

#include <atomic>
#include <chrono>
#include <random>

#include <fmt/format.h>

namespace lily::serve {
namespace {

Json text(std::string_view value) { return Json::string(std::string(value)); }

Json message_json(const Answer& answer) {
  Json message = Json::object({{"role", text("assistant")}});
  const bool only_calls = answer.content.empty() && !answer.tool_calls.empty();
  message.set("content", only_calls ? Json() : text(answer.content));
  if (!answer.reasoning.empty()) message.set("reasoning_content", text(answer.reasoning));
  if (answer.tool_calls.empty()) return message;
  Json::Array calls;
  for (const Answer::Call& call : answer.tool_calls) {
    calls.push_back(Json::object(
        {{"id", text(call.id)},
         {"type", text("function")},
         {"function", Json::object({{"name", text(call.name)}, {"arguments", text(call.arguments)}})}}));
  }
  message.set("tool_calls", Json::array(std::move(calls)));
  return message;
}

Json call_delta_json(const ToolCallDelta& delta) {
  Json call = Json::object({{"index", Json::integer(static_cast<std::int64_t>(delta.index))}});
  Json function = Json::object();
  if (!delta.id.empty()) {
    call.set("id", text(delta.id));
    call.set("type", text("function"));
    function.set("name", text(delta.name));
  }
  function.set("arguments", text(delta.arguments));
  call.set("function", std::move(function));
  return call;
}

Json usage_json(const Usage& usage) {
  return Json::object(
      {{"prompt_tokens", Json::integer(usage.prompt_tokens)},
       {"completion_tokens", Json::integer(usage.completion_tokens)},
       {"total_tokens", Json::integer(usage.prompt_tokens + usage.completion_tokens)},
       {"prompt_tokens_details", Json::object({{"cached_tokens", Json::integer(usage.cached_tokens)}})},
       {"completion_tokens_details",
        Json::object({{"reasoning_tokens", Json::integer(usage.reasoning_tokens)}})}});
}

}  // namespace

std::string new_reply_id(std::string_view prefix) {
  static const std::uint64_t kRun = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }();
  static std::atomic<std::uint32_t> count{0};
  return fmt::format("{}-{:016x}{:08x}", prefix, kRun, count.fetch_add(1));
}

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Json sampling_json(const SamplingOptions& effective) {
  Json sampling = Json::object();
  const auto add = [&sampling](const char* name, const std::optional<float>& value) {
    // The shortest decimal that is this float: 0.7, not 0.699999988079071.
    if (value) sampling.set(name, Json::parse(fmt::format("{}", *value)));
  };
  add("temperature", effective.temperature);
  if (effective.top_k) sampling.set("top_k", Json::integer(*effective.top_k));
  add("top_p", effective.top_p);
  add("min_p", effective.min_p);
  add("repetition_penalty", effective.repetition_penalty);
  add("presence_penalty", effective.presence_penalty);
  add("frequency_penalty", effective.frequency_penalty);
  // As in a request: seeds are signed 64-bit integers there.
  if (effective.seed) sampling.set("seed", Json::integer(static_cast<std::int64_t>(*effective.seed)));
  return sampling;
}

Json completion_json(const ReplyIdentity& identity, const GenerationResult& result) {
  Json choice = Json::object({{"index", Json::integer(0)},
                              {"message", message_json(result.answer)},
                              {"logprobs", Json()},
                              {"finish_reason", text(to_string(result.answer.finish_reason))}});
  return Json::object({{"id", text(identity.id)},
                       {"object", text("chat.completion")},
                       {"created", Json::integer(identity.created)},
                       {"model", text(identity.model)},
                       {"choices", Json::array({std::move(choice)})},
                       {"usage", usage_json(result.usage)}});
}

Json ChunkShaper::envelope(Json choices) const {
  Json chunk = Json::object({{"id", text(identity_.id)},
                             {"object", text("chat.completion.chunk")},
                             {"created", Json::integer(identity_.created)},
                             {"model", text(identity_.model)},
                             {"choices", std::move(choices)}});
  if (usage_follows_) chunk.set("usage", Json());
  return chunk;
}

Json ChunkShaper::choice(Json delta, Json finish_reason) const {
  return envelope(Json::array({Json::object({{"index", Json::integer(0)},
                                             {"delta", std::move(delta)},
                                             {"logprobs", Json()},
                                             {"finish_reason", std::move(finish_reason)}})}));
}

Json ChunkShaper::role() const {
  return choice(Json::object({{"role", text("assistant")}, {"content", text("")}}), Json());
}

Json ChunkShaper::delta(const Delta& delta) const {
  Json fields = Json::object();
  if (!delta.reasoning.empty()) fields.set("reasoning_content", text(delta.reasoning));
  if (!delta.content.empty()) fields.set("content", text(delta.content));
  if (!delta.tool_calls.empty()) {
    Json::Array calls;
    for (const ToolCallDelta& call : delta.tool_calls) calls.push_back(call_delta_json(call));
    fields.set("tool_calls", Json::array(std::move(calls)));
  }
  return choice(std::move(fields), Json());
}

Json ChunkShaper::finish(FinishReason reason) const {
  return choice(Json::object(), text(to_string(reason)));
}

Json ChunkShaper::usage(const Usage& usage) const {
  Json chunk = envelope(Json::array());
  chunk.set("usage", usage_json(usage));
  return chunk;
}

}  // namespace lily::serve
