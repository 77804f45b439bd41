// The byte alphabet of byte-level BPE: each byte is written as one printable character in a tokenizer.json.
#pragma once

#include <string>
#include <string_view>

namespace lily::text {

// Appends the bytes that `token` spells; false, with `bytes` half written, when it holds a character outside
// the alphabet.
bool append_spelled_bytes(std::string_view token, std::string& bytes);

}  // namespace lily::text
