// The small members of a tokenizer.json: which steps it asks for besides BPE, and whether we do just these.
#pragma once

#include <map>
#include <string>

#include "lily/json.hpp"

namespace lily::text {

// Members by name; `file` is the file's name for messages. All throw Error(unsupported) naming the member,
// what it asks for and what is offered.
using JsonMembers = std::map<std::string, Json, std::less<>>;

// True when text is to be normalized to NFC, false when not at all.
bool reads_nfc(const JsonMembers& members, const std::string& file);
// The pattern that cuts text into pieces.
std::string read_pattern(const JsonMembers& members, const std::string& file);
// Decoding joins the bytes of tokens; nothing is put before or behind the tokens of a text.
void check_decoder(const JsonMembers& members, const std::string& file);
// `options` are the members of "model" except the vocabulary and the merges.
void check_bpe_options(const JsonMembers& options, const std::string& file);

}  // namespace lily::text
