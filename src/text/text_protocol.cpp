// The text protocol of a checkpoint folder, put together from tokenizer, renderer and answer parser.
#include "text/text_protocol.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/mapped_file.hpp"
#include "lily/error.hpp"
#include "text/output_parser.hpp"
#include "text/renderer.hpp"

namespace lily {
namespace {

using text::ControlTokens;
using text::Tokenizer;

constexpr std::uint64_t kMaxTemplateBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{16} << 20;

struct NamedTemplate {
  std::string text;
  std::string source;
};

// The template of a tokenizer_config.json: a text, or a list of named ones of which "default" counts.
std::optional<NamedTemplate> read_config_template(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Json config = Json::parse(read_text_file(path, kMaxConfigBytes));
  const Json* found = config.find("chat_template");
  if (found == nullptr || found->is_null()) return std::nullopt;
  const std::string source = fmt::format("{}: chat_template", path.string());
  if (found->is_array()) {
    for (const Json& entry : found->as_array()) {
      const Json* name = entry.find("name");
      if (name == nullptr || !name->is_string() || name->as_string() != "default") continue;
      found = entry.find("template");
      break;
    }
  }
  if (found == nullptr || !found->is_string()) {
    throw Error(ErrorKind::bad_input, fmt::format("{} is neither a text nor a list with a default", source));
  }
  return NamedTemplate{found->as_string(), source};
}

// Prompts are rendered by code that reproduces one template, so another one must not be ignored in silence. A
// folder without any template is taken: its prompts can only be meant to be this family's.
void check_chat_template(const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / "chat_template.jinja";
  const std::optional<NamedTemplate> found =
      std::filesystem::exists(file) ? NamedTemplate{read_text_file(file, kMaxTemplateBytes), file.string()}
                                    : read_config_template(checkpoint / "tokenizer_config.json");
  if (!found || text::is_known_template(found->text)) return;
  throw Error(
      ErrorKind::unsupported,
      fmt::format("{}: this template of {} bytes is not the published one of Qwen3.6, the only one that "
                  "prompts are rendered by",
                  found->source, found->text.size()));
}

class TokenizerProtocol final : public TextProtocol {
 public:
  explicit TokenizerProtocol(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::size_t vocabulary_size() const override { return tokenizer_->size(); }

  std::vector<TokenId> encode(std::string_view text, bool match_control, std::size_t most) const override {
    std::vector<TokenId> ids;
    tokenizer_->encode(text, match_control ? ControlTokens::match : ControlTokens::plain, ids, most);
    return ids;
  }

  std::vector<TokenId> encode(const RenderedPrompt& prompt, std::size_t most) const override {
    std::vector<TokenId> ids;
    std::string plain;  // neighbouring plain segments are one text to the official tokenizer
    const auto flush = [&] {
      tokenizer_->encode(plain, ControlTokens::plain, ids, most);
      plain.clear();
    };
    for (const PromptSegment& segment : prompt.segments) {
      if (!segment.control) {
        plain.append(segment.text);
        continue;
      }
      flush();
      const std::optional<TokenId> id = tokenizer_->control_id(segment.text);
      if (!id) {
        throw Error(
            ErrorKind::unsupported,
            fmt::format("the prompt needs the token \"{}\", which this vocabulary lacks", segment.text));
      }
      ids.push_back(*id);
    }
    flush();
    return ids;
  }

  std::string decode(const std::vector<TokenId>& ids) const override { return tokenizer_->decode(ids); }

  RenderedPrompt render(const ChatPrompt& prompt) const override { return text::render(prompt); }

  Answer parse(std::string_view text, const ParseOptions& options) const override {
    return parse_answer(text, options);
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace

std::shared_ptr<const TextProtocol> text::open_protocol(const std::filesystem::path& checkpoint,
                                                        std::shared_ptr<const Tokenizer> tokenizer) {
  check_chat_template(checkpoint);
  return std::make_shared<TokenizerProtocol>(std::move(tokenizer));
}

std::shared_ptr<const TextProtocol> TextProtocol::open(const std::filesystem::path& checkpoint) {
  return text::open_protocol(checkpoint, Tokenizer::load_checkpoint(checkpoint));
}

std::shared_ptr<const TextProtocol> TextProtocol::open_tokenizer(
    const std::filesystem::path& tokenizer_json) {
  return std::make_shared<TokenizerProtocol>(Tokenizer::load(tokenizer_json));
}

Answer parse_answer(std::string_view text, const TextProtocol::ParseOptions& options) {
  text::OutputParser parser({.in_think = options.in_think,
                             .tools = options.tools,
                             .stop_strings = options.stop_strings,
                             .call_id_prefix = "call_"});
  text::Utf8Stream valid;  // the parser takes valid UTF-8 only
  parser.push(valid.push(text));
  parser.push(valid.finish());
  parser.finish(options.ended_by_length);
  return parser.answer();
}

}  // namespace lily
