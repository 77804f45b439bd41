// `lily tokenize`: text to token ids and back.
#include <fmt/core.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/input_output.hpp"
#include "lily/error.hpp"
#include "lily/json.hpp"
#include "lily/text.hpp"

namespace lily::cli {
namespace {

struct TokenizeFlags {
  std::filesystem::path model;
  std::filesystem::path tokenizer;
  bool lines = false;
  bool no_special = false;
  bool decode = false;
};

std::string ids_to_json(const std::vector<TokenId>& ids) {
  std::string text = "[";
  for (const TokenId id : ids)
    fmt::format_to(std::back_inserter(text), "{}{}", text.size() > 1 ? "," : "", id);
  return text + "]";
}

std::vector<TokenId> ids_from_json(std::string_view text) {
  const Json json = Json::parse(text);
  std::vector<TokenId> ids;
  for (const Json& value : json.as_array()) {
    const auto id = value.as_integer();
    if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
      throw Error(ErrorKind::bad_input, fmt::format("token id {} is not an integer from 0 to {}",
                                                    value.dump(), std::numeric_limits<TokenId>::max()));
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

void run_tokenize(const TokenizeFlags& flags) {
  const auto text = flags.tokenizer.empty() ? TextProtocol::open(flags.model)
                                            : TextProtocol::open_tokenizer(flags.tokenizer);
  if (flags.lines) {
    for_each_input_line([&](std::string_view line, std::size_t number) {
      try {
        if (flags.decode) {
          std::string literal;
          append_json_string(literal, text->decode(ids_from_json(line)));
          write_output(literal + "\n");
        } else {
          write_output(ids_to_json(text->encode(Json::parse(line).as_string(), !flags.no_special)) + "\n");
        }
      } catch (const Error& error) {
        throw Error(error.kind(), fmt::format("line {}: {}", number, error.what()));
      }
    });
  } else if (flags.decode) {
    write_output(text->decode(ids_from_json(read_standard_input())));
  } else {
    write_output(ids_to_json(text->encode(read_standard_input(), !flags.no_special)) + "\n");
  }
}

}  // namespace

void add_tokenize(CLI::App& program) {
  const auto flags = std::make_shared<TokenizeFlags>();
  Arguments(program, "tokenize", "Turn text into token ids, or back")
      .option("--model", flags->model, "Checkpoint folder", "DIR")
      .option("--tokenizer", flags->tokenizer, "A tokenizer.json alone", "FILE")
      .exactly_one({"--model", "--tokenizer"})
      .flag("--jsonl", flags->lines, "One JSON string a line in, one JSON array a line out")
      .flag("--no-special", flags->no_special, "Control literals such as <|im_end|> are plain text")
      .flag("--decode", flags->decode, "The other way: JSON arrays in, text out")
      .examples(
          "Reads standard input.\n"
          "Examples:\n"
          "  printf 'Hello' | lily tokenize --model models/lily-mini\n"
          "  echo '[5, 6]' | lily tokenize --model models/lily-mini --decode")
      .run([flags] { run_tokenize(*flags); });
}

}  // namespace lily::cli
