// `lily parse`: what a model wrote to the message that a client receives.
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/input_output.hpp"
#include "lily/chat.hpp"
#include "lily/json.hpp"
#include "lily/text.hpp"

namespace lily::cli {
namespace {

struct ParseFlags {
  TextProtocol::ParseOptions options;
  std::filesystem::path tools;
  std::string end = "stop";
};

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json::string(text); }

Json to_json(const Answer& answer) {
  Json calls = Json::array();
  for (const Answer::Call& call : answer.tool_calls) {
    Json function = Json::object();
    function.set("name", Json::string(call.name));
    function.set("arguments", Json::string(call.arguments));
    Json json = Json::object();
    json.set("id", Json::string(call.id));
    json.set("type", Json::string("function"));
    json.set("function", std::move(function));
    calls.as_array().push_back(std::move(json));
  }
  Json message = Json::object();
  message.set("role", Json::string("assistant"));
  message.set("content", text_or_null(answer.content));
  message.set("reasoning_content", text_or_null(answer.reasoning));
  message.set("tool_calls", std::move(calls));
  message.set("finish_reason", Json::string(std::string(to_string(answer.finish_reason))));
  return message;
}

void run_parse(ParseFlags& flags) {
  if (!flags.tools.empty()) flags.options.tools = Json::parse(read_file(flags.tools)).as_array();
  flags.options.ended_by_length = flags.end == "length";
  write_output(to_json(parse_answer(read_standard_input(), flags.options)).dump() + "\n");
}

}  // namespace

void add_parse(CLI::App& program) {
  const auto flags = std::make_shared<ParseFlags>();
  Arguments(program, "parse", "Turn a model's text into a message")
      .flag("--in-think", flags->options.in_think, "The prompt ended inside the think block")
      .option("--tools", flags->tools, "JSON array of the request's tools", "FILE")
      .option("--end", flags->end, "Why the text ended (default: stop)")
      .one_of({"stop", "length"})
      .repeated("--stop", flags->options.stop_strings, "Stop string; may be repeated", "TEXT")
      .examples(
          "Reads everything the model wrote from standard input; prints the message with its finish_reason.\n"
          "Example:\n"
          "  printf 'Let me add.\\n</think>\\n\\nIt is 4.' | lily parse --in-think")
      .run([flags] { run_parse(*flags); });
}

}  // namespace lily::cli
