// Answers in the OpenAI wire shape: chat.completion objects and chat.completion.chunk objects.
#pragma once

#include <cstdint>
#include <string>

#include "lily/generation.hpp"
#include "lily/json.hpp"

namespace lily::serve {

// What all objects of one reply share.
struct ReplyIdentity {
  std::string id;  // "chatcmpl-..."
  std::string model;
  std::int64_t created = 0;  // seconds since 1970
};

// A new id, unique within and across runs of the server.
std::string new_reply_id(std::string_view prefix);
std::int64_t unix_seconds();

Json sampling_json(const SamplingOptions& effective);  // the debug object of ServerOptions::echo_sampling
// The buffered reply.
Json completion_json(const ReplyIdentity& identity, const GenerationResult& result);

// The chunks of a streamed reply. With `usage_follows` each has "usage": null, as clients of include_usage
// expect.
class ChunkShaper {
 public:
  ChunkShaper(ReplyIdentity identity, bool usage_follows)
      : identity_(std::move(identity)), usage_follows_(usage_follows) {}

  Json role() const;
  Json delta(const Delta& delta) const;
  Json finish(FinishReason reason) const;
  Json usage(const Usage& usage) const;  // "choices" is empty

 private:
  Json envelope(Json choices) const;
  Json choice(Json delta, Json finish_reason) const;

  ReplyIdentity identity_;
  bool usage_follows_;
};

}  // namespace lily::serve
