// A whole engine over a scripted backend.
#include "support/scripted_engine.hpp"

#include "support/fixtures.hpp"

namespace lily::testing {

std::shared_ptr<const text::Tokenizer> tiny_tokenizer() {
  static const auto tokenizer = text::Tokenizer::load_checkpoint(kTinyQ4);
  return tokenizer;
}

std::shared_ptr<const TextProtocol> tiny_text() {
  static const auto text = TextProtocol::open(kTinyQ4);
  return text;
}

std::vector<TokenId> ids_of(const std::string& text) { return tiny_text()->encode(text, true); }

std::unique_ptr<Engine> make_scripted_engine(Script script, const EngineOptions& options,
                                             std::shared_ptr<ScriptLog> log) {
  engine::EngineParts parts;
  parts.backend = make_scripted_backend(std::move(script), std::move(log));
  parts.text = tiny_text();
  parts.tokenizer = tiny_tokenizer();
  parts.model_id = "scripted";
  parts.defaults.do_sample = false;
  return engine::make_engine(std::move(parts), options);
}

GenerationRequest continue_text(const std::string& text) {
  GenerationRequest request;
  request.prompt = text;
  return request;
}

GenerationRequest ask(const std::string& question, bool thinking) {
  Message message;
  message.role = Role::user;
  message.content = {{.kind = ContentPart::Kind::text, .text = question}};
  ChatPrompt chat;
  chat.messages.push_back(std::move(message));
  chat.enable_thinking = thinking;
  GenerationRequest request;
  request.prompt = std::move(chat);
  return request;
}

}  // namespace lily::testing
