// `lily run`: one prompt, one streamed answer.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "cli/answer_printer.hpp"
#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/engine_options.hpp"
#include "cli/generation_options.hpp"
#include "cli/input_output.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress_bar.hpp"
#include "lily/engine.hpp"

namespace lily::cli {
namespace {

struct RunFlags {
  EngineOptions engine;
  GenerationRequest request;
  std::string prompt;
  std::string system;
  bool no_think = false;
  bool raw = false;
  bool stats = false;
};

Message text_message(Role role, const std::string& text) {
  Message message;
  message.role = role;
  message.content = {{.text = text}};
  return message;
}

void set_prompt(RunFlags& flags) {
  const std::string text = flags.prompt == "-" ? read_standard_input() : flags.prompt;
  if (flags.raw) {
    flags.request.prompt = text;
    return;
  }
  ChatPrompt chat;
  if (!flags.system.empty()) chat.messages.push_back(text_message(Role::system, flags.system));
  chat.messages.push_back(text_message(Role::user, text));
  chat.enable_thinking = !flags.no_think;
  flags.request.prompt = std::move(chat);
}

void run_run(RunFlags& flags) {
  set_prompt(flags);
  flags.engine.progress = progress_bar();
  const auto engine = Engine::open(flags.engine);

  AnswerPrinter printer;
  const InterruptScope interrupt;
  const GenerationResult result = engine->generate(
      flags.request, {.prefill = prefill_bar(), .delta = [&](const Delta& delta) { printer.print(delta); }},
      interrupt.token());
  printer.finish();
  if (flags.stats) fmt::print(stderr, "{}\n", describe_timing(result));
  if (interrupt.interrupted()) throw Error(ErrorKind::cancelled, "interrupted");
  if (result.answer.finish_reason == FinishReason::length) {
    fmt::print(stderr, "lily: the answer was cut after {} tokens\n", result.usage.completion_tokens);
  }
}

}  // namespace

void add_run(CLI::App& program) {
  const auto flags = std::make_shared<RunFlags>();
  Arguments arguments(program, "run", "Answer one prompt");
  arguments.option("prompt", flags->prompt, "The prompt; - reads it from standard input", "PROMPT")
      .required();
  add_engine_options(arguments, flags->engine);
  add_context_option(arguments, flags->engine.context);
  arguments.option("--system", flags->system, "System message", "TEXT")
      .flag("--no-think", flags->no_think, "Answer without reasoning first")
      .flag("--raw", flags->raw, "Continue the prompt as it is, without a conversation around it")
      .flag("--stats", flags->stats, "Print token counts and speed to standard error");
  add_generation_options(arguments, flags->request);
  arguments
      .examples(
          "The answer goes to standard output. Reasoning is shown, dimmed, only in a terminal.\n"
          "Examples:\n"
          "  lily run --model models/lily-mini \"Who are you?\"\n"
          "  git diff | lily run --model DIR --system \"Write the commit message.\" --no-think -\n"
          "  lily run --model DIR --raw --max-tokens 20 \"Once upon a time\"")
      .run([flags] { run_run(*flags); });
}

}  // namespace lily::cli
