// Checks of the steps a tokenizer.json asks for.
#include "text/tokenizer_pipeline.hpp"

#include <fmt/format.h>

#include <string_view>

#include "lily/error.hpp"

namespace lily::text {
namespace {

[[noreturn]] void refuse(const std::string& file, std::string_view field, std::string_view found,
                         std::string_view needed) {
  throw Error(ErrorKind::unsupported, fmt::format("{}: {} is {}; {} is needed", file, field, found, needed));
}

const Json& member(const Json& object, std::string_view name) {
  static const Json kNull;
  const Json* found = object.find(name);
  return found == nullptr ? kNull : *found;
}

const Json& member(const JsonMembers& members, std::string_view name) {
  static const Json kNull;
  const auto found = members.find(name);
  return found == members.end() ? kNull : found->second;
}

// A value for a message; a hostile file must not flood it.
std::string shown(const Json& value) {
  constexpr std::size_t kShownBytes = 80;
  if (value.is_array() || value.is_object()) return fmt::format("an {}", value.kind_name());
  std::string text = value.dump();
  if (text.size() > kShownBytes) text = fmt::format("a {} of {} bytes", value.kind_name(), text.size());
  return text;
}

bool is_text(const Json& value, std::string_view text) {
  return value.is_string() && value.as_string() == text;
}

void need_false(const Json& value, bool otherwise, const std::string& file, std::string_view field) {
  const bool found = value.is_null() ? otherwise : !value.is_boolean() || value.as_boolean();
  if (found) refuse(file, field, value.is_null() ? "absent" : shown(value), "false");
}

// The steps of a "Sequence", or the single step itself.
Json::Array steps_of(const Json& value, std::string_view list_name) {
  if (value.is_null()) return {};
  if (!is_text(member(value, "type"), "Sequence")) return {value};
  const Json& steps = member(value, list_name);
  return steps.is_array() ? steps.as_array() : Json::Array{steps};
}

}  // namespace

bool reads_nfc(const JsonMembers& members, const std::string& file) {
  const Json::Array steps = steps_of(member(members, "normalizer"), "normalizers");
  for (const Json& step : steps) {
    const Json& type = member(step, "type");
    if (!is_text(type, "NFC")) refuse(file, "normalizer.type", shown(type), "\"NFC\" or no normalizer");
  }
  return !steps.empty();
}

std::string read_pattern(const JsonMembers& members, const std::string& file) {
  const Json::Array steps = steps_of(member(members, "pre_tokenizer"), "pretokenizers");
  if (steps.size() != 2 || !is_text(member(steps[0], "type"), "Split") ||
      !is_text(member(steps[1], "type"), "ByteLevel")) {
    std::string found = "absent";
    for (std::size_t i = 0; i < steps.size() && i < 4; ++i) {
      found = i == 0 ? shown(member(steps[i], "type")) : found + ", " + shown(member(steps[i], "type"));
    }
    refuse(file, "pre_tokenizer", found, "a Sequence of Split and ByteLevel");
  }
  const Json& pattern = member(member(steps[0], "pattern"), "Regex");
  if (!pattern.is_string())
    refuse(file, "pre_tokenizer pattern.Regex", shown(pattern), "a regular expression");
  const Json& behavior = member(steps[0], "behavior");
  if (!is_text(behavior, "Isolated")) refuse(file, "pre_tokenizer behavior", shown(behavior), "\"Isolated\"");
  need_false(member(steps[0], "invert"), false, file, "pre_tokenizer invert");
  need_false(member(steps[1], "add_prefix_space"), true, file, "pre_tokenizer add_prefix_space");
  need_false(member(steps[1], "use_regex"), true, file, "pre_tokenizer use_regex");
  return pattern.as_string();
}

void check_decoder(const JsonMembers& members, const std::string& file) {
  const Json& decoder = member(member(members, "decoder"), "type");
  if (!is_text(decoder, "ByteLevel")) refuse(file, "decoder.type", shown(decoder), "\"ByteLevel\"");
  for (const Json& step : steps_of(member(members, "post_processor"), "processors")) {
    const Json& type = member(step, "type");
    if (!is_text(type, "ByteLevel"))
      refuse(file, "post_processor.type", shown(type), "\"ByteLevel\" or none");
  }
}

void check_bpe_options(const JsonMembers& options, const std::string& file) {
  const Json& type = member(options, "type");
  if (!is_text(type, "BPE")) refuse(file, "model.type", shown(type), "\"BPE\"");
  const Json& dropout = member(options, "dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.as_double() == 0.0)) {
    refuse(file, "model.dropout", shown(dropout), "null");
  }
  for (const std::string_view name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& affix = member(options, name);
    if (!affix.is_null() && !is_text(affix, ""))
      refuse(file, fmt::format("model.{}", name), shown(affix), "\"\"");
  }
  need_false(member(options, "byte_fallback"), false, file, "model.byte_fallback");
  need_false(member(options, "ignore_merges"), false, file, "model.ignore_merges");
}

}  // namespace lily::text
