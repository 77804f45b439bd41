// `lily serve`: the OpenAI-compatible server.
#include <fmt/core.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <filesystem>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/engine_options.hpp"
#include "cli/progress_bar.hpp"
#include "serve/api_keys.hpp"
#include "serve/log.hpp"
#include "serve/server.hpp"
#include "serve/signals.hpp"

namespace lily::cli {
namespace {

struct ServeFlags {
  EngineOptions engine;
  serve::ServerOptions server;
  std::filesystem::path api_key_file;
};

// glibc learns from every large block that is freed to take the next ones, up to 32 MB, from an arena of the
// thread that asks, and the arena keeps them: after 16 requests of up to 60 MB lily-mini held 596 MB, and
// holds 60 MB with the threshold fixed. There are 8 arenas a core. The engine takes its large memory once.
void give_back_large_blocks() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

// An IPv6 address stands in brackets, or its last part would be the port.
std::string url_of(const std::string& host, int port) {
  if (host.find(':') != std::string::npos) return fmt::format("http://[{}]:{}", host, port);
  return fmt::format("http://{}:{}", host, port);
}

void run_serve(ServeFlags& flags) {
  give_back_large_blocks();
  serve::log_to_standard_error();
  if (!flags.api_key_file.empty()) flags.server.api_keys = serve::read_api_keys(flags.api_key_file);
  flags.engine.max_queue = flags.server.max_queue;
  flags.engine.progress = progress_bar();

  serve::Server server(flags.server);
  const serve::StopSignals signals(server);
  serve::log_information("listening on " + url_of(flags.server.host, server.port()));
  const auto engine = Engine::open(flags.engine);
  server.attach(*engine);
  const EngineInfo& info = engine->info();
  serve::log_information(fmt::format(
      "ready: {}, {}, context {}, weights {:.2f} GB, activations {}, kv {}", info.model_id, info.backend,
      info.context, static_cast<double>(info.weight_bytes) * 1e-9, info.activations, info.kv));
  server.run();
  serve::log_information("stopped");
}

}  // namespace

void add_serve(CLI::App& program) {
  const auto flags = std::make_shared<ServeFlags>();
  serve::ServerOptions& server = flags->server;
  Arguments arguments(program, "serve", "Serve the OpenAI API over HTTP");
  add_engine_options(arguments, flags->engine);
  add_context_option(arguments, flags->engine.context);
  arguments.option("--host", server.host, "Address to listen on (default: 127.0.0.1)", "ADDRESS")
      .option("--port", server.port, "Port; 0 takes a free one and logs it (default: 8080)", "N")
      .range(0, 65535)
      .option("--api-key-file", flags->api_key_file, "Ask for one of the keys in FILE, one a line", "FILE")
      .option("--max-queue", server.max_queue, "Requests that may wait (default: 64)", "N")
      .range(0, 1024)
      .option("--cors-origin", server.cors_origin,
              "Web origin that may call; * for all (default: this machine's)", "ORIGIN")
      .examples(
          "Examples:\n"
          "  lily serve --model models/lily-mini\n"
          "  lily serve --model DIR --host 0.0.0.0 --api-key-file keys.txt --context 131072 --kv int8")
      .run([flags] { run_serve(*flags); });
}

}  // namespace lily::cli
