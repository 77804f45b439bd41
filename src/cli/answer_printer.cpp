// Printing of a streamed answer and of its timing.
#include "cli/answer_printer.hpp"

#include <fmt/core.h>

#include <string>

#include "cli/input_output.hpp"
#include "cli/terminal.hpp"

namespace lily::cli {

AnswerPrinter::AnswerPrinter() : terminal_(output_is_terminal()) {}

void AnswerPrinter::print(const Delta& delta) {
  if (terminal_ && !delta.reasoning.empty()) write(delta.reasoning, true);
  if (!delta.content.empty()) write(delta.content, false);
  flush_output();
}

void AnswerPrinter::write(std::string_view text, bool reasoning) {
  if (terminal_ && reasoning != in_reasoning_) {
    if (in_reasoning_) {
      write_output(kPlain);
      write_output(at_line_start_ ? "\n" : "\n\n");
    } else {
      write_output(kDim);
    }
    in_reasoning_ = reasoning;
  }
  write_output(terminal_ ? without_controls(text) : std::string(text));
  at_line_start_ = text.back() == '\n';
  content_begun_ = true;
}

void AnswerPrinter::finish() {
  if (in_reasoning_) write_output(kPlain);
  in_reasoning_ = false;
  if (content_begun_ && !at_line_start_) write_output("\n");
  flush_output();
}

std::string describe_timing(const GenerationResult& result) {
  const auto rate = [](int tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0.0; };
  const Usage& usage = result.usage;
  const double prefill = result.timing.prefill.count();
  const double decode = result.timing.decode.count();
  // The first token comes out of prefill; decode makes the rest.
  const int decoded = usage.completion_tokens > 0 ? usage.completion_tokens - 1 : 0;
  return fmt::format(
      "prompt {} tokens ({} cached) in {:.2f} s, {:.0f} tok/s; answer {} tokens in {:.2f} s, {:.1f} tok/s",
      usage.prompt_tokens, usage.cached_tokens, prefill,
      rate(usage.prompt_tokens - usage.cached_tokens, prefill), usage.completion_tokens, decode,
      rate(decoded, decode));
}

}  // namespace lily::cli
