// Reading a tokenizer.json, and the added tokens of a tokenizer_config.json.
#include "text/tokenizer_file.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

#include "lily/error.hpp"
#include "lily/json.hpp"
#include "text/bpe_alphabet.hpp"
#include "text/tokenizer_json.hpp"
#include "text/tokenizer_pipeline.hpp"

namespace lily::text {
namespace {

constexpr auto kMaxIds = BpeMerges::kMaxIds;

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw Error(ErrorKind::bad_input, fmt::format("{}: {}", file, what));
}

// A token for a message: quoted, unprintable bytes escaped, cut to a bearable length.
std::string shown_token(std::string_view token) {
  constexpr std::size_t kShownBytes = 64;
  return fmt::format("{:?}{}", token.substr(0, kShownBytes), token.size() > kShownBytes ? "..." : "");
}

Json parse_value(JsonCursor& cursor, const std::string& file, std::string_view field) {
  const std::string_view raw = cursor.raw_value();
  try {
    return Json::parse(raw);
  } catch (const Error& error) {
    fail(file, fmt::format("{}: {}", field, error.what()));
  }
}

class Reader {
 public:
  Reader(const NamedText& tokenizer, const NamedText* config) : name_(tokenizer.name) {
    read_members(tokenizer.text);
    file_.nfc = reads_nfc(members_, name_);
    file_.pattern = read_pattern(members_, name_);
    check_decoder(members_, name_);
    find_bytes();
    if (const auto added = members_.find("added_tokens"); added != members_.end()) {
      if (!added->second.is_array())
        fail(name_, fmt::format("added_tokens is {}, not an array", added->second.kind_name()));
      for (const Json& token : added->second.as_array()) add_token(name_, token, integer_member(token, "id"));
    }
    if (config != nullptr) read_config(*config);
  }

  TokenizerFile take() { return std::move(file_); }

 private:
  void read_members(std::string_view text) {
    JsonCursor cursor(text, name_);
    bool has_model = false;
    cursor.object([&](std::string_view key) {
      if (key == "model") {
        if (has_model) cursor.fail("second member \"model\"");
        has_model = true;
        read_model(cursor, text);
      } else {
        add_member(members_, cursor, key);
      }
    });
    cursor.end();
    if (!has_model) fail(name_, "no member \"model\"");
  }

  void add_member(JsonMembers& members, JsonCursor& cursor, std::string_view key) {
    if (!members.emplace(key, Json()).second) cursor.fail(fmt::format("second member {}", shown_token(key)));
    members.find(key)->second = parse_value(cursor, name_, key);
  }

  // The merges name tokens, so they are read after the vocabulary wherever they stand.
  void read_model(JsonCursor& cursor, std::string_view text) {
    JsonMembers options;
    bool has_vocabulary = false;
    std::optional<JsonCursor> merges;
    cursor.object([&](std::string_view key) {
      if (key == "vocab") {
        if (has_vocabulary) cursor.fail("second member \"vocab\"");
        has_vocabulary = true;
        read_vocabulary(cursor);
      } else if (key == "merges") {
        if (merges) cursor.fail("second member \"merges\"");
        const std::string_view raw = cursor.raw_value();
        merges.emplace(raw, name_, static_cast<std::size_t>(raw.data() - text.data()));
      } else {
        add_member(options, cursor, key);
      }
    });
    check_bpe_options(options, name_);
    if (!has_vocabulary) fail(name_, "no member \"model.vocab\"");
    if (!merges) fail(name_, "no member \"model.merges\"");
    read_merges(*merges);
    merges->end();
  }

  void read_vocabulary(JsonCursor& cursor) {
    std::string bytes;
    cursor.object([&](std::string_view token) {
      bytes.clear();
      if (token.empty()) cursor.fail("model.vocab: empty token");
      if (!append_spelled_bytes(token, bytes)) {
        cursor.fail(
            fmt::format("model.vocab: token {} is not spelled in the byte alphabet", shown_token(token)));
      }
      const std::uint64_t id = cursor.integer();
      if (id >= kMaxIds)
        cursor.fail(fmt::format("model.vocab: id {} is beyond the limit of {}", id, kMaxIds - 1));
      if (!file_.vocabulary.add(static_cast<TokenId>(id), bytes)) {
        cursor.fail(fmt::format("model.vocab: second token with id {}", id));
      }
      if (!index_.add(static_cast<TokenId>(id))) {
        cursor.fail(fmt::format("model.vocab: second entry for token {}", shown_token(bytes)));
      }
    });
  }

  // A merge is ["left", "right"], or "left right" in older files.
  void read_merges(JsonCursor& cursor) {
    std::string storage;
    std::string joined;
    cursor.array([&] {
      if (file_.merges.size() == BpeMerges::kMaxMerges - 1) {
        cursor.fail(fmt::format("model.merges: more than {} merges", BpeMerges::kMaxMerges - 1));
      }
      joined.clear();
      std::size_t left_size = 0;
      std::size_t parts = 0;
      const auto add_part = [&](std::string_view part) {
        if (++parts > 2 || !append_spelled_bytes(part, joined)) fail_merge(cursor, "is no pair of tokens");
        if (parts == 1) left_size = joined.size();
      };
      if (cursor.next_is('[')) {
        cursor.array([&] { add_part(cursor.string(storage)); });
      } else {
        const std::string_view both = cursor.string(storage);
        const std::size_t space = both.find(' ');
        add_part(both.substr(0, space));
        if (space != std::string_view::npos) add_part(both.substr(space + 1));
      }
      if (parts != 2) fail_merge(cursor, "is no pair of tokens");
      const std::string_view bytes = joined;
      file_.merges.push_back({.left = merge_token(cursor, bytes.substr(0, left_size)),
                              .right = merge_token(cursor, bytes.substr(left_size)),
                              .result = merge_token(cursor, bytes)});
    });
  }

  TokenId merge_token(const JsonCursor& cursor, std::string_view bytes) const {
    const std::optional<TokenId> id = index_.find(bytes);
    if (!id) fail_merge(cursor, fmt::format("names {}, which model.vocab lacks", shown_token(bytes)));
    return *id;
  }

  [[noreturn]] void fail_merge(const JsonCursor& cursor, std::string_view what) const {
    cursor.fail(fmt::format("model.merges: merge {} {}", file_.merges.size(), what));
  }

  void find_bytes() {
    for (unsigned byte = 0; byte < 256; ++byte) {
      const char spelled = static_cast<char>(byte);
      const std::optional<TokenId> id = index_.find({&spelled, 1});
      if (!id) fail(name_, fmt::format("model.vocab has no token for the byte {:#04x}", byte));
      file_.byte_ids[byte] = *id;
    }
  }

  static std::optional<std::uint64_t> integer_member(const Json& object, std::string_view key) {
    const Json* value = object.find(key);
    const std::optional<std::int64_t> integer = value == nullptr ? std::nullopt : value->as_integer();
    if (!integer || *integer < 0) return std::nullopt;
    return static_cast<std::uint64_t>(*integer);
  }

  void add_token(const std::string& file, const Json& token, std::optional<std::uint64_t> id) {
    if (!id || *id >= kMaxIds) fail(file, fmt::format("added token without an id from 0 to {}", kMaxIds - 1));
    const Json* content = token.find("content");
    if (content == nullptr || !content->is_string() || content->as_string().empty()) {
      fail(file, fmt::format("added token {}: content is no text", *id));
    }
    for (const std::string_view option : {"single_word", "lstrip", "rstrip", "normalized"}) {
      const Json* value = token.find(option);
      if (value == nullptr || (value->is_boolean() && !value->as_boolean())) continue;
      throw Error(ErrorKind::unsupported, fmt::format("{}: added token {} asks for {}; false is needed", file,
                                                      shown_token(content->as_string()), option));
    }
    enter_token(file, static_cast<TokenId>(*id), content->as_string());
  }

  void enter_token(const std::string& file, TokenId id, const std::string& text) {
    for (const AddedToken& token : file_.added_tokens) {
      if (token.text != text && token.id != id) continue;
      if (token.text == text && token.id == id && &file != &name_) return;  // the config repeats it
      fail(file, fmt::format("added token {} with id {} contradicts added token {} with id {}",
                             shown_token(text), id, shown_token(token.text), token.id));
    }
    if (file_.added_tokens.size() == kMaxAddedTokens) {
      fail(file, fmt::format("more than {} added tokens", kMaxAddedTokens));
    }
    const std::optional<TokenId> known = index_.find(text);
    if (known && *known != id) {
      fail(file,
           fmt::format("added token {} has id {}, model.vocab gives it {}", shown_token(text), id, *known));
    }
    if (!known && !file_.vocabulary.add(id, text)) {
      fail(file, fmt::format("added token {} has id {}, which model.vocab gives to another",
                             shown_token(text), id));
    }
    file_.added_tokens.push_back({id, text});
  }

  void read_config(const NamedText& config) {
    Json root;
    try {
      root = Json::parse(config.text);
    } catch (const Error& error) {
      fail(config.name, error.what());
    }
    if (!root.is_object()) fail(config.name, fmt::format("is {}, not an object", root.kind_name()));
    const Json* tokens = root.find("added_tokens_decoder");
    if (tokens == nullptr || tokens->is_null()) return;
    if (!tokens->is_object()) {
      fail(config.name, fmt::format("added_tokens_decoder is {}, not an object", tokens->kind_name()));
    }
    for (const auto& [key, token] : tokens->as_object()) {
      std::uint64_t id = kMaxIds;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      const bool whole = error == std::errc() && end == key.data() + key.size();
      add_token(config.name, token, whole ? std::optional(id) : std::nullopt);
    }
  }

  // Each is compared with all others and sought at every place of a text that begins like it.
  static constexpr std::size_t kMaxAddedTokens = 4096;

  const std::string& name_;
  TokenizerFile file_;
  VocabularyIndex index_{file_.vocabulary};
  JsonMembers members_;
};

}  // namespace

TokenizerFile read_tokenizer_file(const NamedText& tokenizer, const NamedText* config) {
  return Reader(tokenizer, config).take();
}

}  // namespace lily::text
