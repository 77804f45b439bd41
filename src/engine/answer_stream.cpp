// The answer of one request as it grows.
#include "engine/answer_stream.hpp"

#include <iterator>
#include <string>

namespace lily::engine {
namespace {

void append(Delta& delta, Delta&& more) {
  delta.reasoning += more.reasoning;
  delta.content += more.content;
  std::move(more.tool_calls.begin(), more.tool_calls.end(), std::back_inserter(delta.tool_calls));
}

}  // namespace

Delta AnswerStream::push(TokenId id) {
  if (parser_.in_reasoning()) ++reasoning_tokens_;
  const std::string text = characters_.push(tokenizer_.bytes(id));
  return text.empty() ? Delta{} : parser_.push(text);
}

Delta AnswerStream::finish(bool by_length) {
  Delta delta;
  const std::string rest = characters_.finish();
  if (!rest.empty() && !parser_.stopped()) delta = parser_.push(rest);
  append(delta, parser_.finish(by_length));
  return delta;
}

}  // namespace lily::engine
