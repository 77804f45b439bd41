// A bounded memory of the tokens of short words met before, by far most of any text.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "lily/text.hpp"

namespace lily::text {

// A word and its length in two machine words, so that comparing and hashing take no loop.
struct WordKey {
  static constexpr std::size_t kMaxBytes = 15;

  std::uint64_t low = 0;
  std::uint64_t high = 0;  // the last byte is the length: no key of a word is all zero

  // `size` is 1 to kMaxBytes; `available` counts the bytes that may be read at `word`.
  static WordKey of(const char* word, std::size_t size, std::size_t available) noexcept {
    static_assert(std::endian::native == std::endian::little, "the masks below keep a word's first bytes");
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), word, available >= sizeof words ? sizeof words : size);
    const std::uint64_t all = ~std::uint64_t{0};
    WordKey key;
    key.low = size >= 8 ? words[0] : words[0] & (all >> (64 - 8 * size));
    key.high = size <= 8 ? 0 : words[1] & (all >> (128 - 8 * size));
    key.high |= std::uint64_t{size} << 56;
    return key;
  }

  std::uint64_t hash() const noexcept {
    std::uint64_t mixed = low * 0x9E3779B97F4A7C15U ^ std::rotl(high * 0xC2B2AE3D27D4EB4FU, 31);
    mixed ^= mixed >> 32;
    return mixed * 0xD6E8FEB86659FD93U;
  }

  friend bool operator==(const WordKey&, const WordKey&) = default;
};

// Every key has one place; a new word replaces the one it meets there.
class WordCache {
 public:
  static constexpr std::size_t kMaxTokens = 4;

  struct Entry {
    WordKey key;
    std::array<TokenId, kMaxTokens> ids{};
    std::size_t count() const noexcept {
      return 1U + (ids[1] >= 0) + (ids[2] >= 0) + (ids[3] >= 0);  // unused places are negative
    }
  };

  WordCache() : entries_(std::size_t{1} << kBits) {}

  Entry& entry(const WordKey& key) noexcept { return entries_[key.hash() >> (64 - kBits)]; }

 private:
  static constexpr unsigned kBits = 16;

  std::vector<Entry> entries_;
};

}  // namespace lily::text
