// `lily chat`: a conversation in the terminal.
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/answer_printer.hpp"
#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/engine_options.hpp"
#include "cli/generation_options.hpp"
#include "cli/input_output.hpp"
#include "cli/interrupt.hpp"
#include "cli/line_editor.hpp"
#include "cli/progress_bar.hpp"
#include "cli/terminal.hpp"
#include "lily/engine.hpp"

namespace lily::cli {
namespace {

constexpr std::string_view kHelp =
    "/reset   begin a new conversation\n"
    "/quit    leave (also Ctrl-D)\n"
    "/help    this text\n"
    "Ctrl-C stops an answer or drops the line. A line that ends in \\ goes on in the next.\n";

struct ChatFlags {
  EngineOptions engine;
  GenerationRequest request;
  std::string system;
  bool no_think = false;
};

class Chat {
 public:
  Chat(Engine& engine, const ChatFlags& flags) : engine_(engine), flags_(flags) { reset(); }

  // False when the person leaves.
  bool take(const std::string& line) {
    if (line.find_first_not_of(" \t\n") == line.npos) return true;
    if (line == "/quit") return false;
    if (line == "/help") {
      write_output(kHelp);
    } else if (line == "/reset") {
      reset();
      write_output("A new conversation.\n");
    } else if (line.front() == '/' && line.find_first_of(" /", 1) == line.npos) {
      fmt::print(stderr, "lily: no such command: {} (/help lists them)\n", without_controls(line));
    } else {
      answer(line);
    }
    flush_output();
    return true;
  }

 private:
  void reset() {
    messages_.clear();
    if (!flags_.system.empty()) messages_.push_back(text_message(Role::system, flags_.system));
  }

  static Message text_message(Role role, std::string text) {
    Message message;
    message.role = role;
    message.content.push_back({.text = std::move(text)});
    return message;
  }

  void answer(const std::string& text) {
    messages_.push_back(text_message(Role::user, text));
    GenerationRequest request = flags_.request;
    ChatPrompt chat;
    chat.messages = messages_;
    chat.enable_thinking = !flags_.no_think;
    request.prompt = std::move(chat);
    try {
      keep(generate(request));
    } catch (const Error& error) {
      // The conversation goes on without the turn that failed, such as one that no longer fits the context.
      messages_.pop_back();
      const bool full = error.kind() == ErrorKind::too_long;
      fmt::print(stderr, "lily: error: {}{}\n", error.what(),
                 full ? " (/reset begins a new conversation)" : "");
    }
  }

  GenerationResult generate(const GenerationRequest& request) {
    AnswerPrinter printer;
    const InterruptScope interrupt;
    GenerationResult result = engine_.generate(
        request, {.prefill = prefill_bar(), .delta = [&](const Delta& delta) { printer.print(delta); }},
        interrupt.token());
    printer.finish();
    if (interrupt.interrupted()) fmt::print(stderr, "lily: stopped\n");
    if (result.answer.finish_reason == FinishReason::length) {
      fmt::print(stderr, "lily: the answer was cut after {} tokens\n", result.usage.completion_tokens);
    }
    if (error_is_terminal()) fmt::print(stderr, "{}{}{}\n", kDim, describe_timing(result), kPlain);
    return result;
  }

  void keep(const GenerationResult& result) {
    Message message = text_message(Role::assistant, result.answer.content);
    if (!result.answer.reasoning.empty()) message.reasoning = result.answer.reasoning;
    messages_.push_back(std::move(message));
  }

  Engine& engine_;
  const ChatFlags& flags_;
  std::vector<Message> messages_;
};

void run_chat(ChatFlags& flags) {
  flags.engine.progress = progress_bar();
  const auto engine = Engine::open(flags.engine);
  if (input_is_terminal()) {
    fmt::print("{}, {}, context {}. /help lists the commands.\n", engine->info().model_id,
               engine->info().backend, engine->info().context);
    flush_output();
  }
  Chat chat(*engine, flags);
  LineEditor editor("> ");
  std::string line;
  for (;;) {
    switch (editor.read(line)) {
      case LineResult::line:
        if (!chat.take(line)) return;
        break;
      case LineResult::interrupted:
        write_output("\n");
        flush_output();
        break;
      case LineResult::end:
        if (input_is_terminal()) write_output("\n");
        return;
    }
  }
}

}  // namespace

void add_chat(CLI::App& program) {
  const auto flags = std::make_shared<ChatFlags>();
  Arguments arguments(program, "chat", "Talk with the model in the terminal");
  add_engine_options(arguments, flags->engine);
  add_context_option(arguments, flags->engine.context);
  arguments.option("--system", flags->system, "System message", "TEXT")
      .flag("--no-think", flags->no_think, "Answer without reasoning first");
  add_generation_options(arguments, flags->request);
  arguments
      .examples(std::string(kHelp) +
                "Example:\n"
                "  lily chat --model models/lily-mini --system \"Answer in one sentence.\"")
      .run([flags] { run_chat(*flags); });
}

}  // namespace lily::cli
