// The text protocol without a model: tokenizer, chat rendering and answer parsing of one checkpoint folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lily/chat.hpp"

namespace lily {

using TokenId = std::int32_t;

// A piece of a rendered prompt: one control token (its literal, such as "<|im_start|>") or plain text, which
// can never encode to a control token.
struct PromptSegment {
  bool control = false;
  std::string text;
};

struct RenderedPrompt {
  std::vector<PromptSegment> segments;
  bool in_think = false;     // the answer begins inside the think block
  std::string text() const;  // all segments joined
};

// Thread-safe after construction.
class TextProtocol {
 public:
  // Reads tokenizer.json (and chat_template.jinja, whose text must be the published one) of a checkpoint
  // folder. Throws Error(not_found | bad_input | unsupported) naming the file and what is wrong with it.
  static std::shared_ptr<const TextProtocol> open(const std::filesystem::path& checkpoint);
  // Reads a tokenizer.json alone; rendering works the same.
  static std::shared_ptr<const TextProtocol> open_tokenizer(const std::filesystem::path& tokenizer_json);

  TextProtocol(const TextProtocol&) = delete;
  TextProtocol& operator=(const TextProtocol&) = delete;
  virtual ~TextProtocol() = default;

  // Number of addressable ids; ids at or above it have no token.
  virtual std::size_t vocabulary_size() const = 0;
  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
  // Ids of `text`. With `match_control` false, control literals in it are plain text. Throws Error(too_long)
  // as soon as there are sure to be more than `most`.
  virtual std::vector<TokenId> encode(std::string_view text, bool match_control,
                                      std::size_t most = kAnyNumber) const = 0;
  virtual std::vector<TokenId> encode(const RenderedPrompt& prompt, std::size_t most = kAnyNumber) const = 0;
  // Text of `ids`, broken UTF-8 replaced by U+FFFD. Throws Error(bad_input) for an id without a token.
  virtual std::string decode(const std::vector<TokenId>& ids) const = 0;

  // Throws Error(bad_input) whose param() names the message, for conversations the format cannot express.
  virtual RenderedPrompt render(const ChatPrompt& prompt) const = 0;

  struct ParseOptions {
    bool in_think = false;
    std::vector<Json> tools;
    std::vector<std::string> stop_strings;  // act on content only
    bool ended_by_length = false;
  };
  // The answer in everything the model wrote. Total: never throws on any text.
  virtual Answer parse(std::string_view text, const ParseOptions& options) const = 0;

 protected:
  TextProtocol() = default;
};

// TextProtocol::parse without a tokenizer: the answer's format does not depend on one.
Answer parse_answer(std::string_view text, const TextProtocol::ParseOptions& options);

}  // namespace lily
