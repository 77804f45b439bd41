// Tokens are the bytes, then pairs and triples of printable ASCII, so random ids decode to readable text.
#include "checkpoint/synthetic_tokenizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/json_fields.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

struct ControlToken {
  std::string_view literal;
  bool special;
};

// In the order of their ids in the published tokenizer.
constexpr std::array<ControlToken, 33> kControlTokens = {
    {{"<|endoftext|>", true},      {"<|im_start|>", true},
     {"<|im_end|>", true},         {"<|object_ref_start|>", true},
     {"<|object_ref_end|>", true}, {"<|box_start|>", true},
     {"<|box_end|>", true},        {"<|quad_start|>", true},
     {"<|quad_end|>", true},       {"<|vision_start|>", true},
     {"<|vision_end|>", true},     {"<|vision_pad|>", true},
     {"<|image_pad|>", true},      {"<|video_pad|>", true},
     {"<tool_call>", false},       {"</tool_call>", false},
     {"<|fim_prefix|>", false},    {"<|fim_middle|>", false},
     {"<|fim_suffix|>", false},    {"<|fim_pad|>", false},
     {"<|repo_name|>", false},     {"<|file_sep|>", false},
     {"<tool_response>", false},   {"</tool_response>", false},
     {"<think>", false},           {"</think>", false},
     {"<|audio_start|>", true},    {"<|audio_end|>", true},
     {"<tts_pad>", true},          {"<tts_text_bos>", true},
     {"<tts_text_eod>", true},     {"<tts_text_bos_single>", true},
     {"<|audio_pad|>", true}}};

// The family's pre-tokenizer, as every tokenizer.json of it has it.
constexpr std::string_view kPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

std::string utf8(unsigned code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0U | (code_point >> 6)), static_cast<char>(0x80U | (code_point & 0x3fU))};
}

// The 256 bytes in the order of GPT-2's alphabet: bytes that print stand for themselves and come first, the
// others stand as U+0100 and following.
std::vector<std::string> byte_tokens() {
  std::vector<std::string> printable;
  std::vector<std::string> shifted;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    if (prints) {
      printable.push_back(utf8(byte));
    } else {
      shifted.push_back(utf8(256 + static_cast<unsigned>(shifted.size())));
    }
  }
  printable.insert(printable.end(), shifted.begin(), shifted.end());
  return printable;
}

// Tokens and the merges that make them; ids are positions.
class Vocabulary {
 public:
  explicit Vocabulary(std::size_t size) : size_(size), tokens_(byte_tokens()) {
    std::string letters = "etaoinshrdlucmfwypvbgkqjxz";
    for (char letter = 'A'; letter <= 'Z'; ++letter) letters += letter;
    std::vector<std::string> characters = {utf8(0x120)};  // the space
    for (const char letter : letters) characters.emplace_back(1, letter);
    for (char other = '!'; other <= '~'; ++other) {
      if (letters.find(other) == std::string::npos) characters.emplace_back(1, other);
    }
    for (const std::string& first : characters) {
      for (const std::string& second : characters) merge(first, second);
    }
    const std::vector<std::string> pairs(tokens_.begin() + 256, tokens_.end());
    for (const char letter : letters) {
      for (const std::string& pair : pairs) merge(pair, std::string(1, letter));
    }
    if (tokens_.size() != size) {
      throw Error(ErrorKind::internal, fmt::format("{} tokens made, {} were asked", tokens_.size(), size));
    }
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::pair<std::string, std::string>>& merges() const { return merges_; }

 private:
  void merge(const std::string& first, const std::string& second) {
    if (tokens_.size() == size_) return;
    tokens_.push_back(first + second);
    merges_.emplace_back(first, second);
  }

  std::size_t size_;
  std::vector<std::string> tokens_;
  std::vector<std::pair<std::string, std::string>> merges_;
};

Json added_tokens(int first_id) {
  Json tokens = Json::array();
  for (const ControlToken& control : kControlTokens) {
    tokens.as_array().push_back(Json::object({
        {"id", Json::integer(first_id + static_cast<int>(tokens.as_array().size()))},
        {"content", Json::string(std::string(control.literal))},
        {"single_word", Json::boolean(false)},
        {"lstrip", Json::boolean(false)},
        {"rstrip", Json::boolean(false)},
        {"normalized", Json::boolean(false)},
        {"special", Json::boolean(control.special)},
    }));
  }
  return tokens;
}

Json byte_level(bool trim_offsets) {
  return Json::object({{"type", Json::string("ByteLevel")},
                       {"add_prefix_space", Json::boolean(false)},
                       {"trim_offsets", Json::boolean(trim_offsets)},
                       {"use_regex", Json::boolean(false)}});
}

Json pre_tokenizer() {
  Json split = Json::object({
      {"type", Json::string("Split")},
      {"pattern", Json::object({{"Regex", Json::string(std::string(kPattern))}})},
      {"behavior", Json::string("Isolated")},
      {"invert", Json::boolean(false)},
  });
  return Json::object({{"type", Json::string("Sequence")},
                       {"pretokenizers", Json::array({std::move(split), byte_level(false)})}});
}

}  // namespace

std::string synthetic_tokenizer(int first_control_id) {
  const Vocabulary vocabulary(static_cast<std::size_t>(first_control_id));
  Json vocab = Json::object();
  for (const std::string& token : vocabulary.tokens()) {
    const auto id = static_cast<std::int64_t>(vocab.as_object().size());
    vocab.as_object().emplace_back(token, Json::integer(id));
  }
  Json merges = Json::array();
  for (const auto& [first, second] : vocabulary.merges()) {
    merges.as_array().push_back(Json::array({Json::string(first), Json::string(second)}));
  }
  return Json::object({
                          {"version", Json::string("1.0")},
                          {"truncation", Json()},
                          {"padding", Json()},
                          {"added_tokens", added_tokens(first_control_id)},
                          {"normalizer", Json::object({{"type", Json::string("NFC")}})},
                          {"pre_tokenizer", pre_tokenizer()},
                          {"post_processor", Json()},
                          {"decoder", byte_level(false)},
                          {"model", Json::object({
                                        {"type", Json::string("BPE")},
                                        {"dropout", Json()},
                                        {"unk_token", Json()},
                                        {"continuing_subword_prefix", Json()},
                                        {"end_of_word_suffix", Json()},
                                        {"fuse_unk", Json::boolean(false)},
                                        {"byte_fallback", Json::boolean(false)},
                                        {"ignore_merges", Json::boolean(false)},
                                        {"vocab", std::move(vocab)},
                                        {"merges", std::move(merges)},
                                    })},
                      })
      .dump();
}

TokenizerFacts read_tokenizer_facts(const std::string& json, const std::string& name) {
  Json value;
  try {
    value = Json::parse(json);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", name, error.what()));
  }
  const JsonFields root(value, name, "");
  const std::optional<JsonFields> model = root.object("model");
  if (!model) root.fail_missing("model");
  const std::optional<JsonFields> vocab = model->object("vocab");
  if (!vocab) model->fail_missing("vocab");
  const Json* const added = root.find("added_tokens");
  if (added == nullptr || !added->is_array()) root.fail("added_tokens", "is no array");

  constexpr std::int64_t kMaxId = (std::int64_t{1} << 31) - 1;
  std::int64_t highest = 0;
  for (const auto& [token, id] : vocab->value().as_object()) {
    const std::optional<std::int64_t> number = id.as_integer();
    if (!number || *number < 0 || *number > kMaxId)
      vocab->fail(token, fmt::format("is {}, an id is needed", shown(id)));
    highest = std::max(highest, *number);
  }
  std::optional<std::int64_t> end_of_text;
  std::optional<std::int64_t> end_of_turn;
  for (const Json& item : added->as_array()) {
    const JsonFields token(item, name, "added_tokens");
    const std::int64_t id = token.integer("id", 0, kMaxId);
    const std::string content = token.string("content");
    if (content == "<|endoftext|>") end_of_text = id;
    if (content == "<|im_end|>") end_of_turn = id;
    highest = std::max(highest, id);
  }
  if (!end_of_text || !end_of_turn) {
    root.fail("added_tokens", "lacks <|endoftext|> or <|im_end|>, which generation needs to end");
  }
  return {static_cast<int>(highest), static_cast<int>(*end_of_text), static_cast<int>(*end_of_turn)};
}

}  // namespace lily::checkpoint
