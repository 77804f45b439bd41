// The program `lily`: reads the command line, runs one command, turns errors into messages and exit codes.
#include <fmt/core.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/input_output.hpp"
#include "cli/terminal.hpp"
#include "lily/error.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kInterrupted = 130;  // as shells report a program that SIGINT ended

// A message quotes what it found, such as a tensor's name in a file from somewhere.
int report(const char* message) {
  fmt::print(stderr, "lily: error: {}\n", lily::cli::without_controls(message));
  return kFailed;
}

int run(int argc, char** argv) {
  namespace cli = lily::cli;
  cli::Program program("lily", "Lily runs Qwen3.5/3.6 mixture-of-experts models on this machine.");
  program.version("lily " LILY_VERSION)
      .commands(
          "Examples:\n"
          "  lily serve --model models/lily-mini --port 8080\n"
          "  lily run --model models/lily-mini \"Who are you?\"\n"
          "  lily info --model models/lily-mini\n"
          "Every command explains itself: lily COMMAND --help");
  for (const auto add :
       {cli::add_serve, cli::add_chat, cli::add_run, cli::add_info, cli::add_bench, cli::add_eval,
        cli::add_synth, cli::add_quantize, cli::add_tokenize, cli::add_render, cli::add_parse}) {
    add(program.app());
  }
  const int status = program.run(argc, argv);
  cli::flush_output();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, reported like any other
  try {
    return run(argc, argv);
  } catch (const lily::Error& error) {
    if (error.kind() == lily::ErrorKind::cancelled) return kInterrupted;
    return report(error.what());
  } catch (const std::bad_alloc&) {
    return report("out of memory");
  } catch (const std::exception& error) {
    return report(error.what());
  }
}
