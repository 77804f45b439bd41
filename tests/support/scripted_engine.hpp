// A whole engine over a scripted backend and the tiny model's tokenizer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/assemble.hpp"
#include "lily/engine.hpp"
#include "support/scripted_backend.hpp"

namespace lily::testing {

// The tokenizer of tests/data/golden/tiny-q4, read once per process.
std::shared_ptr<const text::Tokenizer> tiny_tokenizer();
std::shared_ptr<const TextProtocol> tiny_text();

// Ids of `text` with control literals matched.
std::vector<TokenId> ids_of(const std::string& text);

std::unique_ptr<Engine> make_scripted_engine(Script script, const EngineOptions& options = {},
                                             std::shared_ptr<ScriptLog> log = {});

// A request that continues `text`, greedily.
GenerationRequest continue_text(const std::string& text);
// A chat request with one user message; the answer begins in the think block when `thinking`.
GenerationRequest ask(const std::string& question, bool thinking);

}  // namespace lily::testing
