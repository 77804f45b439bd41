// Writes the request log.
#include "serve/request_log.hpp"

#include <fmt/format.h>

#include "serve/echo.hpp"
#include "serve/log.hpp"

namespace lily::serve {
namespace {

double rate(int tokens, double seconds) { return tokens > 0 && seconds > 0 ? tokens / seconds : 0; }

}  // namespace

TokenRates rates_of(const GenerationResult& result) {
  // The first token comes out of the prefill's last row, so decoding made one less.
  return {rate(result.usage.prompt_tokens - result.usage.cached_tokens, result.timing.prefill.count()),
          rate(result.usage.completion_tokens - 1, result.timing.decode.count())};
}

void log_request(const RequestRecord& record, const GenerationResult* result) {
  std::string line = fmt::format("{} {} {} status={}", record.id, printable(record.method, 16),
                                 printable(record.path, 100), record.status);
  if (record.stream) line += " stream";
  if (!record.outcome.empty()) line += " outcome=" + record.outcome;
  if (!record.param.empty()) line += " param=" + printable(record.param, 100);
  if (result != nullptr) {
    const TokenRates rates = rates_of(*result);
    line += fmt::format(
        " prompt={} cached={} completion={} reasoning={} queued={:.3f}s prefill={:.3f}s ({:.1f} tok/s) "
        "decode={:.3f}s ({:.1f} tok/s)",
        result->usage.prompt_tokens, result->usage.cached_tokens, result->usage.completion_tokens,
        result->usage.reasoning_tokens, result->timing.queued.count(), result->timing.prefill.count(),
        rates.prefill, result->timing.decode.count(), rates.decode);
  }
  log_information(line);
}

}  // namespace lily::serve
