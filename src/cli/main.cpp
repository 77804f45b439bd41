// The program `lily`: reads the command line, runs one command, turns errors into messages and exit codes.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/commands.hpp"
#include "cli/input_output.hpp"
#include "lily/error.hpp"

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kInterrupted = 130;  // as shells report a program that SIGINT ended

int report(const char* message, int status) {
  fmt::print(stderr, "lily: error: {}\n", message);
  return status;
}

void describe(CLI::App& program) {
  program.name("lily");
  program.set_version_flag("--version", "lily " LILY_VERSION);
  program.require_subcommand(1);
  program.get_formatter()->column_width(32);
  program.footer(
      "Examples:\n"
      "  lily serve --model models/lily-mini --port 8080\n"
      "  lily run --model models/lily-mini \"Who are you?\"\n"
      "  lily info --model models/lily-mini\n"
      "Every command explains itself: lily COMMAND --help");
  namespace cli = lily::cli;
  for (const auto add :
       {cli::add_serve, cli::add_chat, cli::add_run, cli::add_info, cli::add_bench, cli::add_eval,
        cli::add_synth, cli::add_quantize, cli::add_tokenize, cli::add_render, cli::add_parse}) {
    add(program);
  }
}

int run(int argc, char** argv) {
  CLI::App program{"Lily runs Qwen3.5/3.6 mixture-of-experts models on this machine."};
  describe(program);
  try {
    program.parse(argc, argv);
    lily::cli::flush_output();
    return 0;
  } catch (const CLI::Success& success) {  // --help and --version
    return program.exit(success);
  } catch (const CLI::ParseError& error) {
    report(error.what(), kUsage);
    const auto chosen = program.get_subcommands();
    fmt::print(stderr, "see: lily {}--help\n", chosen.empty() ? "" : chosen.front()->get_name() + " ");
    return kUsage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, reported like any other
  try {
    return run(argc, argv);
  } catch (const lily::Error& error) {
    if (error.kind() == lily::ErrorKind::cancelled) return kInterrupted;
    return report(error.what(), kFailed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kFailed);
  } catch (const std::exception& error) {
    return report(error.what(), kFailed);
  }
}
