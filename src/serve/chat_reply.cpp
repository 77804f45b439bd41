// Follows a run of the engine for a client, and ends it when the client leaves or the server stops.
#include "serve/chat_reply.hpp"

#include <utility>

#include <fmt/format.h>

#include "serve/api_error.hpp"
#include "serve/sse_writer.hpp"

namespace lily::serve {
namespace {

// How often a silent run looks after its client. Each delta and each chunk of prefill is an occasion too.
constexpr std::chrono::milliseconds kPeerCheck{50};

constexpr int kClientClosed = 499;  // in the log only, where other servers write the same

ApiError stopping_error() { return server_error(503, "the server is stopping", "server_stopping"); }

ApiError too_slow_error() {
  return server_error(503,
                      fmt::format("the answer was not read as fast as it was made: more than {} bytes waited",
                                  GenerationJob::kMaxUnread),
                      "client_too_slow");
}

std::string progress_of(const GenerationJob::Update& update) {
  return update.prompt == 0 ? "queued" : fmt::format("prompt {}/{}", update.prefilled, update.prompt);
}

}  // namespace

ChatReply::ChatReply(std::unique_ptr<GenerationJob> job, Admission::Ticket ticket, ReplyIdentity identity,
                     RequestRecord record, const Peer& peer, const Options& options)
    : ticket_(std::move(ticket)),
      job_(std::move(job)),
      identity_(std::move(identity)),
      record_(std::move(record)),
      peer_(peer),
      options_(options),
      chunks_(identity_, options.include_usage) {}

HttpReply ChatReply::buffered() {
  while (!job_->next(kPeerCheck).finished) {
    if (peer_.gone() || peer_.stopping()) job_->cancel();
  }
  HttpReply reply;
  try {
    const GenerationResult result = job_->take();
    if (result.answer.finish_reason == FinishReason::cancelled) {
      reply = to_reply(stopping_error());
      const bool stopping = peer_.stopping();
      log(stopping ? reply.status : kClientClosed, stopping ? "server_stopping" : "client_closed", &result);
      return reply;
    }
    Json completion = completion_json(identity_, result);
    if (options_.echo_sampling) completion.set("sampling", sampling_json(result.effective));
    reply.body = completion.dump();
    log(reply.status, std::string(to_string(result.answer.finish_reason)), &result);
  } catch (const std::exception& thrown) {
    const ApiError error = to_api_error(thrown);
    reply = to_reply(error);
    log(reply.status, error.code, nullptr);
  }
  return reply;
}

void ChatReply::stream(ByteSink& sink) {
  SseWriter events(sink);
  events.data(chunks_.role().dump());
  follow(events);
  conclude(events);
}

void ChatReply::follow(SseWriter& events) {
  for (;;) {
    const GenerationJob::Update update = job_->next(kPeerCheck);
    // The engine has let go: who reads the end may ask again, and a slow reader of it takes nobody's place.
    if (update.finished) ticket_ = Admission::Ticket();
    for (const Delta& delta : update.deltas) {
      if (!delta.empty()) events.data(chunks_.delta(delta).dump());
    }
    if (update.finished) return;
    if (events.lost() || peer_.gone() || peer_.stopping()) job_->cancel();
    if (events.silence() + kPeerCheck >= options_.keepalive) events.comment(progress_of(update));
  }
}

void ChatReply::conclude(SseWriter& events) {
  try {
    const GenerationResult result = job_->take();
    const FinishReason reason = result.answer.finish_reason;
    if (reason == FinishReason::cancelled) {
      const bool stopping = peer_.stopping() && !events.lost();
      const bool too_slow = !stopping && job_->overrun();
      if (stopping) events.data(to_json(stopping_error()).dump());
      if (too_slow) events.data(to_json(too_slow_error()).dump());
      log(200, stopping ? "server_stopping" : too_slow ? "client_too_slow" : "client_closed", &result);
      return;
    }
    Json last = chunks_.finish(reason);
    if (options_.echo_sampling) last.set("sampling", sampling_json(result.effective));
    events.data(last.dump());
    if (options_.include_usage) events.data(chunks_.usage(result.usage).dump());
    const bool complete = events.done();
    log(200, complete ? std::string(to_string(reason)) : "client_closed", &result);
  } catch (const std::exception& thrown) {
    // The status line is long gone: an event says what happened, and the missing [DONE] that this is no end.
    const ApiError error = to_api_error(thrown);
    events.data(to_json(error).dump());
    log(200, error.code, nullptr);
  }
}

void ChatReply::log(int status, std::string outcome, const GenerationResult* result) {
  record_.status = status;
  record_.outcome = std::move(outcome);
  log_request(record_, result);
}

}  // namespace lily::serve
