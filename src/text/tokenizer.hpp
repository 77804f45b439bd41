// Byte-level BPE of a tokenizer.json: NFC, the file's own pattern of pieces, merges by rank, added tokens.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lily/text.hpp"

namespace lily::text {

struct TokenizerFile;

enum class ControlTokens { match, plain };

// Thread-safe after construction.
class Tokenizer {
 public:
  // Throws Error(not_found | bad_input | unsupported) naming the file and the field.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& tokenizer_json);
  // Reads tokenizer.json of a checkpoint folder and, where a tokenizer_config.json stands beside it, the
  // added tokens that only the latter has.
  static std::shared_ptr<const Tokenizer> load_checkpoint(const std::filesystem::path& checkpoint);
  static std::shared_ptr<const Tokenizer> parse(std::string_view json, const std::string& name);

  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  ~Tokenizer();

  // One more than the highest id that has a token.
  std::size_t size() const noexcept;

  // Appends the ids of `text` to `ids`. Broken UTF-8 is encoded byte by byte. Time is linear in the text.
  // Throws Error(too_long) beyond 1 GiB, and as soon as `ids` is sure to have more than `most`: many words
  // take no longer than that many tokens, one word only if it is longer than they can be.
  void encode(std::string_view text, ControlTokens control, std::vector<TokenId>& ids,
              std::size_t most = TextProtocol::kAnyNumber) const;

  // The bytes a token stands for; empty for ids without a token.
  std::string_view bytes(TokenId id) const noexcept;
  std::optional<TokenId> control_id(std::string_view literal) const noexcept;
  bool is_control(TokenId id) const noexcept;  // an added token

  // The pieces BPE works on (after NFC); for tests.
  std::vector<std::string> pretokenize(std::string_view text) const;

  // Text of ids, broken UTF-8 replaced by U+FFFD. Throws Error(bad_input) for an id without a token.
  std::string decode(std::span<const TokenId> ids) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  static std::shared_ptr<const Tokenizer> build(TokenizerFile file, const std::string& name);
  std::unique_ptr<Impl> impl_;
};

// Turns token bytes into text as they come: holds back an incomplete character, replaces bytes that can no
// longer complete one by U+FFFD (one per maximal broken prefix, as Unicode recommends).
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();

 private:
  std::string held_;
};

}  // namespace lily::text
