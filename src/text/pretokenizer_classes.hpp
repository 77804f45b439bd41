// The classes of characters that pre-tokenizer patterns tell apart.
#pragma once

#include <cstdint>

namespace lily::text {

enum class CharClass : std::uint8_t {
  other,    // none of those below: punctuation, symbols, controls, unassigned
  letter,   // \p{L}
  mark,     // \p{M}
  number,   // \p{N}
  space,    // White_Space without CR and LF
  newline,  // CR, LF
};

// One entry for every code point; made at the first call.
const CharClass* char_classes();

}  // namespace lily::text
