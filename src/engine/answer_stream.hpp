// The answer of one request as it grows: tokens in, deltas out.
#pragma once

#include "lily/chat.hpp"
#include "text/output_parser.hpp"
#include "text/tokenizer.hpp"

namespace lily::engine {

class AnswerStream {
 public:
  AnswerStream(const text::Tokenizer& tokenizer, text::OutputParser::Options options)
      : tokenizer_(tokenizer), parser_(std::move(options)) {}

  // What `id` made certain; often empty, for a token may end in the middle of a character.
  Delta push(TokenId id);
  // Ends the answer and returns what was held back.
  Delta finish(bool by_length);

  bool stopped() const noexcept { return parser_.stopped(); }  // a stop string is complete
  int reasoning_tokens() const noexcept { return reasoning_tokens_; }
  const Answer& answer() const noexcept { return parser_.answer(); }

 private:
  const text::Tokenizer& tokenizer_;
  text::Utf8Stream characters_;
  text::OutputParser parser_;
  int reasoning_tokens_ = 0;
};

}  // namespace lily::engine
