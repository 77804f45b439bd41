// One log line per request: sizes, times and outcome, never text of a prompt or an answer.
#pragma once

#include <string>
#include <string_view>

#include "lily/generation.hpp"

namespace lily::serve {

struct RequestRecord {
  std::string id;
  std::string_view method;
  std::string_view path;
  int status = 0;
  bool stream = false;
  std::string outcome;  // the finish reason, or the error's code
  std::string param;    // of an error
};

// The tokens of a finished generation and its rates.
struct TokenRates {
  double prefill = 0;  // prompt tokens computed per second
  double decode = 0;   // tokens per second after the first
};
TokenRates rates_of(const GenerationResult& result);

void log_request(const RequestRecord& record, const GenerationResult* result);

}  // namespace lily::serve
