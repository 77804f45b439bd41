// Unicode normalization form C, at little cost for text that already has it.
#pragma once

#include <string>
#include <string_view>

namespace lily::text {

// NFC of valid UTF-8. The result is `text` itself when that is in NFC, else a view of `storage`.
// Time is n log n even for long runs of combining marks in the worst order. The tables are utf8proc's; the
// reference tokenizer has older ones and leaves marks of later versions of Unicode in the order they came.
std::string_view to_nfc(std::string_view valid_utf8, std::string& storage);

}  // namespace lily::text
