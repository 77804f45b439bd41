// Builds an engine from its parts, so that tests can put a scripted backend under it.
#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "checkpoint/config.hpp"
#include "lily/engine.hpp"
#include "text/tokenizer.hpp"

namespace lily::engine {

struct EngineParts {
  std::unique_ptr<backend::Backend> backend;
  std::shared_ptr<const TextProtocol> text;
  std::shared_ptr<const text::Tokenizer> tokenizer;  // the one `text` uses
  checkpoint::GenerationDefaults defaults;           // its eos ids end an answer
  std::string model_id;                              // for info(), as the next two
  std::string activations;
  std::string kv;
};

// Of the options, `context`, `max_queue` and `memory_limit` count here. The tokens
// <|im_end|> and <|endoftext|> end an answer whatever the defaults say. Throws as Engine::open does.
std::unique_ptr<Engine> make_engine(EngineParts parts, const EngineOptions& options);

}  // namespace lily::engine
