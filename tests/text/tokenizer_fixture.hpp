// Tokenizers and data files that the tokenizer tests share.
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "lily/json.hpp"
#include "text/tokenizer.hpp"

namespace lily::text {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline Json read_json(const std::filesystem::path& path) { return Json::parse(read_text(path)); }

inline std::vector<Json> read_json_lines(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Json> values;
  for (std::string line; std::getline(file, line);) values.push_back(Json::parse(line));
  if (values.empty()) throw std::runtime_error("no lines in " + path.string());
  return values;
}

inline const std::filesystem::path kRealTokenizerFile =
    LILY_TEST_UNPACKED "/tokenizer/qwen3.6-tokenizer.json";
inline const std::filesystem::path kTinyCheckpoint = LILY_TEST_DATA "/golden/tiny-q4";

// The vocabulary of the real model's size.
inline const Tokenizer& real_tokenizer() {
  static const auto tokenizer = Tokenizer::load(kRealTokenizerFile);
  return *tokenizer;
}

inline const Tokenizer& tiny_tokenizer() {
  static const auto tokenizer = Tokenizer::load(kTinyCheckpoint / "tokenizer.json");
  return *tokenizer;
}

inline std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text,
                                   ControlTokens control = ControlTokens::plain) {
  std::vector<TokenId> ids;
  tokenizer.encode(text, control, ids);
  return ids;
}

inline std::vector<TokenId> token_ids(const Json& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list.as_array()) ids.push_back(static_cast<TokenId>(id.as_integer().value()));
  return ids;
}

}  // namespace lily::text
