// From an engine's run to the reply of POST /v1/chat/completions, buffered or streamed.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "serve/admission.hpp"
#include "serve/chat_response.hpp"
#include "serve/generation_job.hpp"
#include "serve/http_types.hpp"
#include "serve/request_log.hpp"

namespace lily::serve {

// One request being answered. The run ends when this is destroyed.
class ChatReply {
 public:
  struct Options {
    bool include_usage = false;
    bool echo_sampling = false;
    std::chrono::milliseconds keepalive{};
  };

  // `peer` must outlive this.
  ChatReply(std::unique_ptr<GenerationJob> job, Admission::Ticket ticket, ReplyIdentity identity,
            RequestRecord record, const Peer& peer, const Options& options);

  // Waits for the whole answer. A client that leaves meanwhile ends the run.
  HttpReply buffered();
  // Writes the answer as server-sent events while it is made, and logs its end.
  void stream(ByteSink& sink);

 private:
  void follow(class SseWriter& events);
  void conclude(SseWriter& events);
  void log(int status, std::string outcome, const GenerationResult* result);

  // Before the job: a place in the queue is free only when the engine has let go of the run.
  Admission::Ticket ticket_;
  const std::unique_ptr<GenerationJob> job_;
  const ReplyIdentity identity_;
  RequestRecord record_;
  const Peer& peer_;
  const Options options_;
  const ChunkShaper chunks_;
};

}  // namespace lily::serve
