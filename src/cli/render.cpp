// `lily render`: a conversation to the exact prompt text.
#include <fmt/core.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/input_output.hpp"
#include "lily/chat.hpp"
#include "lily/error.hpp"
#include "lily/json.hpp"
#include "lily/text.hpp"

namespace lily::cli {
namespace {

Json to_json(const RenderedPrompt& prompt) {
  Json segments = Json::array();
  for (const PromptSegment& segment : prompt.segments) {
    Json json = Json::object();
    json.set("control", Json::boolean(segment.control));
    json.set("text", Json::string(segment.text));
    segments.as_array().push_back(std::move(json));
  }
  return segments;
}

RenderedPrompt render_body(const TextProtocol& text, const std::string& body) {
  try {
    return text.render(parse_chat_prompt(Json::parse(body)));
  } catch (const Error& error) {
    // The message may leave the field to param(), as an HTTP reply has a place of its own for it.
    const bool named =
        error.param().empty() || std::string(error.what()).find(error.param()) != std::string::npos;
    throw Error(error.kind(), named ? error.what() : fmt::format("{}: {}", error.param(), error.what()));
  }
}

}  // namespace

void add_render(CLI::App& program) {
  struct Flags {
    std::filesystem::path model;
    bool segments = false;
  };
  const auto flags = std::make_shared<Flags>();
  Arguments(program, "render", "Turn a conversation into the exact prompt text")
      .option("--model", flags->model, "Checkpoint folder; its tokenizer files are enough", "DIR")
      .required()
      .flag("--segments", flags->segments, "A JSON array of {\"control\": ..., \"text\": ...} instead")
      .examples(
          "Reads the body of a chat request from standard input: messages, tools, enable_thinking and so "
          "on.\n"
          "Example:\n"
          "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}' | lily render --model "
          "models/lily-mini")
      .run([flags] {
        const auto text = TextProtocol::open(flags->model);
        const RenderedPrompt prompt = render_body(*text, read_standard_input());
        write_output(flags->segments ? to_json(prompt).dump() + "\n" : prompt.text());
      });
}

}  // namespace lily::cli
