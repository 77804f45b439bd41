// What a tokenizer.json says, checked: everything the tokenizer is built from.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_merges.hpp"
#include "text/tokenizer_added_tokens.hpp"
#include "text/tokenizer_vocabulary.hpp"

namespace lily::text {

struct TokenizerFile {
  Vocabulary vocabulary;  // base tokens and added tokens
  std::array<TokenId, 256> byte_ids{};
  std::vector<Merge> merges;
  std::vector<AddedToken> added_tokens;
  bool nfc = false;
  std::string pattern;
};

// A file's text and its name for messages.
struct NamedText {
  std::string_view text;
  std::string name;
};

// `config` may be null: a tokenizer_config.json, whose added tokens are taken where the tokenizer.json lacks
// them; published checkpoints keep some only there. Throws Error(bad_input) for what is no tokenizer.json or
// contradicts itself, Error(unsupported) for tokenizers other than byte-level BPE of this family.
TokenizerFile read_tokenizer_file(const NamedText& tokenizer, const NamedText* config);

}  // namespace lily::text
