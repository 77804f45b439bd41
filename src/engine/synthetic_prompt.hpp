// The benchmark's prompt and the digest of what was decoded after it; both are fixed by docs/performance.md.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lily/text.hpp"

namespace lily::engine {

// id[i] = (i * 2654435761 mod 2^32) mod vocabulary, for i from `first`.
std::vector<TokenId> synthetic_ids(int first, int count, int vocabulary);

// 64-bit FNV-1a with one step per id (not per byte), as 16 hexadecimal digits.
std::string digest(std::span<const TokenId> ids);

}  // namespace lily::engine
